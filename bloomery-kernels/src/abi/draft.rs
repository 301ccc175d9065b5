//! Of a block that guesses tokens: rows that come one later, and pairs of normalised rows.

/// `out[t] = x[t - 1]` within every sequence, whose first row has what its slot has; slots that are kept get their row of `x`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct CarryArgs {
    /// `[rows][cols]` f32, or 0: every row has what its sequence's slot has, and nothing is kept.
    pub x: u64,
    /// `[rows][cols]` f32.
    pub out: u64,
    /// `[slots][cols]` f32.
    pub states: u64,
    /// `[rows]` u32: the sequence of every row.
    pub sequence: u64,
    /// `[sequences]` u32: the slot that a sequence starts from; another number: zeros.
    pub from: u64,
    /// `[sequences + 1]` u32, ascending: the first row of every sequence, then the number of rows.
    pub starts: u64,
    /// `[rows]` u32: the slot that gets a row; another number: none.
    pub saves: u64,
    /// Rows: one block each.
    pub rows: u32,
    /// Sequences, at most.
    pub sequences: u32,
    /// Slots.
    pub slots: u32,
    /// Values of a row: a multiple of 4.
    pub cols: u32,
}

const _: () = assert!(size_of::<CarryArgs>() == 72 && align_of::<CarryArgs>() == 8);

/// `out[t][s] = [norm(x_0[t]) ; norm(x_1[t][s])]`: two blocks for every stream of a row.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct PairArgs {
    /// `[rows][cols]` and `[rows][streams][cols]` f32.
    pub x: [u64; 2],
    /// `[cols]` and `[streams][cols]` f32.
    pub gain: [u64; 2],
    /// `[rows][streams][2][cols]` f32.
    pub out: u64,
    /// Added to the mean squares.
    pub eps: [f32; 2],
    /// Values of a half: a multiple of 8.
    pub cols: u32,
    /// Streams of a row.
    pub streams: u32,
}

const _: () = assert!(size_of::<PairArgs>() == 56 && align_of::<PairArgs>() == 8);
