//! Products of every head's values with a matrix of its own.

use super::rope::LatentArgs;

/// Warps of a block.
pub const WARPS: u32 = 4;
/// Rows that are multiplied at once.
pub const ROWS: u32 = 8;
/// Sixteens of columns that a warp keeps.
pub const SIXTEENS: u32 = 8;
/// Rows of a block of `per_head_wide_many`.
pub const WIDE_ROWS: u32 = 32;
/// Rows of a matrix of such a block.
pub const WIDE_OUTS: u32 = 32;

/// `out[row][head] = [W_head x[row][head][..cols]; x[row][head][cols..]]`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct HeadsArgs {
    /// `[heads][outs / 16, rounded up][cols / 16][32 lanes][8]` f16: operands of the tensor cores. Lane `4 g + t` has columns `4 t, 4 t + 1` of rows `g` and
    /// `g + 8`, then columns `4 t + 2, 4 t + 3` of both.
    pub weights: u64,
    /// `[rows][heads][cols + tail]` f32.
    pub x: u64,
    /// `[rows][heads][outs + tail]` f32.
    pub out: u64,
    /// Heads.
    pub heads: u32,
    /// Rows of a matrix, a multiple of 8.
    pub outs: u32,
    /// Columns of a matrix, a multiple of 16, at most `16 * SIXTEENS * slices` but for the wide kernels.
    pub cols: u32,
    /// Values of a head behind those that are multiplied, a multiple of 4.
    pub tail: u32,
    /// Rows.
    pub rows: u32,
    /// Warps that share the columns of 16 rows of a matrix: 1, 2 or 4.
    pub slices: u32,
    /// Blocks for the rows of one matrix.
    pub blocks: u32,
    /// Rows that a block takes, a multiple of [`ROWS`].
    pub span: u32,
}

/// Products of queries, and the append of latents.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct AbsorbArgs {
    /// Of the products; tails are the others' work.
    pub heads: HeadsArgs,
    /// Of the append.
    pub latent: LatentArgs,
    /// Blocks of the products.
    pub products: u32,
    /// Not used.
    pub padding: u32,
}

const _: () = assert!(size_of::<AbsorbArgs>() == 216 && align_of::<AbsorbArgs>() == 8);
const _: () = assert!(size_of::<HeadsArgs>() == 56 && align_of::<HeadsArgs>() == 8);
