//! Residual streams: rows of `[streams][width]` values for each token.

/// Values of a token's sums over the columns of one stream.
pub const SUMS: u32 = 8;
/// Residual streams of a token, at most.
pub const STREAMS: u32 = 8;
/// Bytes of shared memory of `stream_norm`: a square of every warp, then its sums.
pub const NORM_BYTES: u32 = 4 * 16 + 4 * 16 * SUMS;

/// Adds to streams, and normalises them: a block for each stream of each row.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct StreamNormArgs {
    /// `[rows][streams][width]` f32.
    pub x: u64,
    /// `[rows][width]` f32, or 0: nothing is added.
    pub y: u64,
    /// `[rows][streams]` f32: `x[t][s] += 2 sigmoid(weights[t][s]) y[t]`.
    pub weights: u64,
    /// `[streams][width]` f32.
    pub gain: u64,
    /// `[rows][streams][width]` f32, or 0: nothing is normalised.
    pub out: u64,
    /// `[streams][streams][width]` f32, or 0: no products are wanted.
    pub matrix: u64,
    /// `[rows][streams][8]` f32: sums of the products with every row of the matrix, over the columns of one stream.
    pub sums: u64,
    /// Added to the mean square.
    pub eps: f32,
    /// Multiplies what is normalised.
    pub factor: f32,
    /// Values of a stream: a multiple of 8.
    pub width: u32,
    /// Streams of a row.
    pub streams: u32,
}

const _: () = assert!(size_of::<StreamNormArgs>() == 72 && align_of::<StreamNormArgs>() == 8);

/// `out[t]` = the sum over streams of `sigmoid(gate) x`, or without gates the mean: four values of each thread.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct StreamMeanArgs {
    /// `[rows][streams][width]` f32.
    pub x: u64,
    /// As many; not used without gates.
    pub gate: u64,
    /// `[rows]`, the first columns of rows of `4 * out_quads` f32 each.
    pub out: u64,
    /// `[rows][streams][8]` f32, or 0.
    pub sums: u64,
    /// `[rows][streams]` f32: what the sums are together.
    pub weights: u64,
    /// Values of a stream, in fours.
    pub quads: u32,
    /// Streams of a row.
    pub streams: u32,
    /// Rows.
    pub rows: u32,
    /// Values of a row of the output, in fours.
    pub out_quads: u32,
}

const _: () = assert!(size_of::<StreamMeanArgs>() == 56 && align_of::<StreamMeanArgs>() == 8);

/// Streams of hyper-connections.
pub const HYPER: u32 = 4;
/// Weights of a row: for reading, for writing, for how streams mix.
pub const HYPER_WEIGHTS: u32 = HYPER * (HYPER + 2);
/// Columns of a stream that a block of `hyper_pass` has.
pub const HYPER_COLUMNS: u32 = 64;
/// Threads of such a block: four columns of a stream each.
pub const HYPER_THREADS: u32 = HYPER_COLUMNS / 4 * HYPER;
/// Sums of a row over the columns of a block: products with the matrix, then the squares.
pub const HYPER_SUMS: u32 = 32;
/// Bytes of shared memory of `hyper_pass`.
pub const HYPER_PASS_BYTES: u32 = 2 * 4 * HYPER_SUMS;
/// Threads of a block of `hyper_read`.
pub const HYPER_READ_THREADS: u32 = 256;
/// Bytes of its shared memory: sums of every warp.
pub const HYPER_READ_BYTES: u32 = HYPER_READ_THREADS / 32 * 4 * HYPER_SUMS;

/// Hyper-connections: both kernels.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct HyperArgs {
    /// `[rows][4][width]` f32.
    pub x: u64,
    /// `[rows][width]` f32, or 0: nothing is written to the streams.
    pub y: u64,
    /// `[rows][24]` f32: what `hyper_pass` writes with; `[rows][outputs]`: what `hyper_read` makes, or 0: nothing.
    pub weights: u64,
    /// `[rows][24]` f32: what `hyper_read` reads with, or 0: with what it makes.
    pub from: u64,
    /// `[outputs][4][width]` f32, or 0: no products are wanted.
    pub matrix: u64,
    /// `[rows][chunks][32]` f32.
    pub sums: u64,
    /// `[3]` f32: multiplies logits for reading, for writing, for mixing; `[1]` where streams are only read.
    pub scale: u64,
    /// `[outputs]` f32: added to them.
    pub base: u64,
    /// `[rows][width]` f32: what is read.
    pub out: u64,
    /// Added to the mean square.
    pub norm_eps: f32,
    /// Added to weights, and to the sums that they are divided by.
    pub eps: f32,
    /// Values of a stream: a multiple of 4.
    pub width: u32,
    /// Rows.
    pub rows: u32,
    /// Rounds of dividing by sums.
    pub rounds: u32,
    /// Blocks of `hyper_pass` for the columns of a row.
    pub chunks: u32,
    /// Rows of a block of `hyper_pass`.
    pub share: u32,
    /// Blocks of `hyper_read` for what is read of a row: one more makes the weights, if any are made.
    pub parts: u32,
    /// Weights of a row that are made: 24, or 4 where streams are only read.
    pub outputs: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

const _: () = assert!(size_of::<HyperArgs>() == 112 && align_of::<HyperArgs>() == 8);
