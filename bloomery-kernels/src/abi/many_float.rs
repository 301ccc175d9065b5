//! Products of many rows with weights of floats, on the tensor cores.
//!
//! A row of activations is two rows of 16-bit numbers, each value rounded and what that left. Weights in F32 have them as they are: both
//! factors are cut in two when they are multiplied.

/// Products of a launch, at most.
pub const PARTS: usize = 4;
/// Bytes of a row that are multiplied at a time: 32 columns of 16 bits, or 16 of 32.
pub const PIECE: u32 = 64;

/// How rows of activations are cut: one block each.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct SplitArgs {
    /// `[rows][cols]` f32.
    pub x: u64,
    /// `[cols]` f32, or 0: no norm.
    pub gain: u64,
    /// `[rows][cols]`: rounded to the format's 16 bits; or all of a value, for F32.
    pub high: u64,
    /// `[rows][cols]`: what that left, but for F32.
    pub low: u64,
    /// `[rows]` f32, or 0: powers of two that products are to be multiplied with, so that halves neither overflow nor end too early.
    pub factors: u64,
    /// Added to the mean square.
    pub eps: f32,
    /// Values of a row, a multiple of 8.
    pub cols: u32,
    /// Of the weights: F16, BF16 or F32.
    pub format: u32,
    /// Not 0: columns in the order of operands of [`heads`](super::heads), within every 32.
    pub operands: u32,
}

/// One product.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Part {
    /// Rows as in the file, or [`heads`](super::heads)' operands.
    pub weight: u64,
    /// `[rows]` f32, or 0.
    pub bias: u64,
    /// `[rows of x][heads][rows]` f32.
    pub out: u64,
    /// Rows of the matrix.
    pub rows: u32,
    /// Blocks of rows before this part.
    pub before: u32,
    /// Not 0: add to `out`.
    pub accumulate: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

/// Products: a block of threads has a block of rows of a part and a block of rows of activations, of one head.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct ProductArgs {
    /// `[rows][heads][cols]`.
    pub high: u64,
    /// As many, but for F32.
    pub low: u64,
    /// `[rows][heads]` f32, or 0.
    pub factors: u64,
    /// Bytes from one head's matrix to the next one's.
    pub stride: u64,
    /// The products.
    pub parts: [Part; PARTS],
    /// Rows of activations.
    pub rows: u32,
    /// Matrices of a part, each with activations of its own.
    pub heads: u32,
    /// Bytes of a row of weights, and of activations.
    pub row_bytes: u32,
    /// Blocks of rows of all parts.
    pub down: u32,
    /// Blocks of rows of activations.
    pub across: u32,
    /// Stages, 2 to 4: one is multiplied while others come in.
    pub stages: u32,
}

const _: () = assert!(size_of::<SplitArgs>() == 56 && align_of::<SplitArgs>() == 8);
const _: () = assert!(size_of::<Part>() == 40 && align_of::<Part>() == 8);
const _: () = assert!(size_of::<ProductArgs>() == 56 + 40 * PARTS && align_of::<ProductArgs>() == 8);

/// Shared memory of a stage: `pieces` of `rows` rows of weights and of `columns` rows of activations, which are `planes` rows each.
#[must_use]
pub const fn stage_bytes(rows: u32, columns: u32, planes: u32, pieces: u32) -> u32 {
    pieces * PIECE * (rows + planes * columns)
}
