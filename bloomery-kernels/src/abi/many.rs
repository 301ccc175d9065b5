//! Products of many rows with weights in tiles.

use super::few::{PARTS, Part};
use super::rounded::{Layout, Rounded};

/// Rows of weights of a block: a tile for each of 8 warps.
pub const ROWS: u32 = 128;
/// Rows of activations of a block, at most.
pub const COLUMNS: u32 = 64;
/// Warps of a block.
pub const WARPS: u32 = 8;
/// Rows on their way to be rounded: one block each.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct RoundArgs {
    /// `[rows][cols]` f32.
    pub x: u64,
    /// `[cols]` f32, or 0: no norm.
    pub gain: u64,
    /// `[rows][cols]` f32, or 0: `x` is what is rounded; else `act(x) * up`.
    pub up: u64,
    /// Where they go.
    pub to: Rounded,
    /// Added to the mean square.
    pub eps: f32,
    /// Values of a row.
    pub cols: u32,
    /// Scales of a block: 1 or 8.
    pub scales: u32,
    /// What gates go through: see [`activation`](super::activation).
    pub act: u32,
    /// What gates and what they multiply are limited to.
    pub limit: f32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

/// Products: blocks of 128 rows of the parts by 64 rows of activations.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct ProductArgs {
    /// The rows of activations.
    pub x: Rounded,
    /// `[..][4]` u32: expert, place of the first pair in `order`, pairs, 0; or 0: all rows, of one matrix.
    pub tiles: u64,
    /// u32: how many. Blocks beyond have nothing to do.
    pub tile_count: u64,
    /// u32 pairs by expert.
    pub order: u64,
    /// `[..]` u32: the seats of experts, matrices are those of seats; or 0: each expert has the matrices with its number.
    pub seats: u64,
    /// Bytes from one expert's tiles to the next one's, for each part.
    pub strides: [u64; PARTS],
    /// The products; `before` counts blocks of 128 rows. Outputs have a row for every pair.
    pub parts: [Part; PARTS],
    /// Pairs of a row of `x`: row `pair / used` is pair's.
    pub used: u32,
    /// Rows of `x`.
    pub rows: u32,
    /// Blocks of a row of activations.
    pub blocks: u32,
    /// Scales of a block: 1 or 8.
    pub scales: u32,
    /// Blocks of 128 rows of all parts.
    pub down: u32,
    /// Bytes of a stage's tile for a warp.
    pub tile_bytes: u32,
    /// Rows of activations of a block: 32 or 64.
    pub columns: u32,
    /// Stages, 2 to 4: one is multiplied while others come in.
    pub stages: u32,
    /// Matrices of a part: a seat beyond has none, and its products are 0.
    pub matrices: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

/// `out[token] += sum over slots of weight * y[pair]`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct CombineArgs {
    /// `[tokens][used][cols]` f32.
    pub y: u64,
    /// `[tokens][cols]` f32.
    pub out: u64,
    /// `[tokens][used]` u32.
    pub experts: u64,
    /// `[tokens][used]` f32.
    pub weights: u64,
    /// Tokens.
    pub tokens: u32,
    /// Values of a row.
    pub cols: u32,
    /// Slots of a token.
    pub used: u32,
    /// Experts of the layer: a slot with another number is left out.
    pub count: u32,
    /// Not 0: replaces `out` instead of adding to it.
    pub replace: u32,
    /// Zero.
    pub padding: u32,
}

const _: () = assert!(size_of::<RoundArgs>() == 72 && align_of::<RoundArgs>() == 8);
const _: () = assert!(size_of::<ProductArgs>() == 96 + 56 * PARTS && align_of::<ProductArgs>() == 8);
const _: () = assert!(size_of::<CombineArgs>() == 56 && align_of::<CombineArgs>() == 8);

/// How a block of the rows of activations lies in shared memory.
#[must_use]
pub const fn stage_layout(scales: u32, columns: u32) -> Layout {
    Layout { blocks: 1, scales, rows: columns }
}

/// Shared memory of a stage: activations, then a tile for every warp.
#[must_use]
pub const fn stage_bytes(scales: u32, columns: u32, tile_bytes: u32) -> u32 {
    stage_layout(scales, columns).bytes() + WARPS * tile_bytes
}

/// Shared memory of a block of products: the numbers of its pairs and of their rows, the stages.
#[must_use]
pub const fn products_bytes(scales: u32, columns: u32, tile_bytes: u32, stages: u32) -> u32 {
    8 * COLUMNS + stages * stage_bytes(scales, columns, tile_bytes)
}
