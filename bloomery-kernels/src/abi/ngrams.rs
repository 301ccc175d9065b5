//! What hashed n-grams add to residual streams.

/// Sums of a stream: squares of its key, of itself and of the value, and the product of the normed first two.
pub const SUMS: u32 = 4;
/// Bytes of shared memory of `ngram_share`.
pub const SHARE_BYTES: u32 = 4 * 16 * SUMS;

/// The three kernels: shares of values and their norms, the convolution, the states. Without a convolution there is one, which needs
/// neither what is behind `gain` nor its third.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct NgramArgs {
    /// `[rows][streams][width]` f32.
    pub key: u64,
    /// `[rows][width]` f32.
    pub value: u64,
    /// `[rows][streams][width]` f32: the streams.
    pub x: u64,
    /// `[streams][width]` f32 each: of keys, of the streams, of weighted values.
    pub gain: [u64; 3],
    /// `[taps][streams][width]` f32; the last are the row's own.
    pub conv: u64,
    /// `[rows][streams]` f32: how much of the value a stream gets.
    pub shares: u64,
    /// `[rows][streams][width]` f32: weighted values, normalised.
    pub normed: u64,
    /// `[slots][kept][streams][width]` f32: the last of those of a sequence, oldest first.
    pub states: u64,
    /// `[rows]` u32: the sequence of every row.
    pub sequence: u64,
    /// `[sequences]` u32: the slot that a sequence starts from; another number: zeros.
    pub from: u64,
    /// `[sequences + 1]` u32, ascending: the first row of every sequence, then the number of rows.
    pub starts: u64,
    /// `[rows]` u32: the slot that gets the state after a row; another number: none.
    pub saves: u64,
    /// Added to the mean squares.
    pub eps: [f32; 3],
    /// Values of a stream: a multiple of 8.
    pub width: u32,
    /// Streams of a row.
    pub streams: u32,
    /// Weights of a channel of the convolution.
    pub taps: u32,
    /// Rows from one to the next.
    pub dilation: u32,
    /// Rows.
    pub rows: u32,
    /// Sequences, at most.
    pub sequences: u32,
    /// Slots.
    pub slots: u32,
}

impl NgramArgs {
    /// Rows of a state.
    #[must_use]
    pub const fn kept(&self) -> u32 {
        self.dilation * (self.taps - 1)
    }
}

const _: () = assert!(size_of::<NgramArgs>() == 152 && align_of::<NgramArgs>() == 8);
