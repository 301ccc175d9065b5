//! Products of up to [`TOKENS`](super::routes::TOKENS) rows with weights in tiles: every tile is read once.

use super::rounded::{Layout, Rounded};
use super::routes::{GROUPS_BYTES, Routes};

/// Products of a projection's launch, at most.
pub const PARTS: usize = 4;

/// One product of a projection.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Part {
    /// Tiles of the matrix.
    pub weight: u64,
    /// `[rows]` f32, or 0.
    pub bias: u64,
    /// `[tokens][rows]` f32.
    pub out: u64,
    /// Rows of the matrix.
    pub rows: u32,
    /// The format's id in the file.
    pub format: u32,
    /// Bytes of a tile.
    pub tile_bytes: u32,
    /// Rows of tiles before this part.
    pub before: u32,
    /// Not 0: add to `out`.
    pub accumulate: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

/// All products: blocks share the rows of tiles of all parts.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct ProjectArgs {
    /// `[tokens][cols]` f32, or 0: the rows are rounded already.
    pub x: u64,
    /// `[cols]` f32, or 0: no norm.
    pub gain: u64,
    /// The rows, if they are rounded already.
    pub rounded: Rounded,
    /// Added to the mean square.
    pub eps: f32,
    /// Values of a row.
    pub cols: u32,
    /// Rows of `x`.
    pub tokens: u32,
    /// Scales of a block of activations: 1 or 8.
    pub scales: u32,
    /// Rows of tiles of all parts.
    pub tiles: u32,
    /// Rows of tiles that a block multiplies between two barriers.
    pub round: u32,
    /// Stages of each warp's ring: 1 to 8.
    pub stages: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// The products; those that are not used have no rows.
    pub parts: [Part; PARTS],
}

const _: () = assert!(size_of::<Part>() == 48 && align_of::<Part>() == 8);
const _: () = assert!(size_of::<ProjectArgs>() == 72 + 48 * PARTS && align_of::<ProjectArgs>() == 8);

/// A matrix for every expert.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Stack {
    /// The first expert's tiles.
    pub weight: u64,
    /// Bytes from one expert's tiles to the next one's.
    pub stride: u64,
    /// Rows of a matrix.
    pub rows: u32,
    /// The format's id in the file.
    pub format: u32,
    /// Bytes of a tile.
    pub tile_bytes: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

/// `hidden[pair] = act(gate x) * (up x)`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct GateUpArgs {
    /// `[tokens][cols]` f32, or 0: the rows are rounded already.
    pub x: u64,
    /// `[cols]` f32, or 0: no norm.
    pub gain: u64,
    /// The rows, if they are rounded already.
    pub rounded: Rounded,
    /// `[pairs][rows]` f32.
    pub hidden: u64,
    /// Who takes which tokens.
    pub routes: Routes,
    /// Gates.
    pub gate: Stack,
    /// Of the format and the rows of `gate`.
    pub up: Stack,
    /// Added to the mean square.
    pub eps: f32,
    /// Values of a row.
    pub cols: u32,
    /// Rows of `x`.
    pub tokens: u32,
    /// Scales of a block of activations: 1 or 8.
    pub scales: u32,
    /// Stages of each warp's ring: 1 to 8.
    pub stages: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// Units of work between two barriers.
    pub round: u32,
    /// What gates go through: see [`activation`](super::activation).
    pub act: u32,
}

/// `out[token] (+)= sum over slots of weight * down hidden[pair]`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct DownArgs {
    /// `[pairs][cols]` f32, or 0: the rows are rounded already.
    pub hidden: u64,
    /// The rows, if they are rounded already.
    pub rounded: Rounded,
    /// `[tokens][rows]` f32.
    pub out: u64,
    /// As the first half had them.
    pub routes: Routes,
    /// The matrices.
    pub down: Stack,
    /// Values of a row.
    pub cols: u32,
    /// Rows of `out`.
    pub tokens: u32,
    /// Scales of a block of activations: 1 or 8.
    pub scales: u32,
    /// Stages of each warp's ring: 1 to 8.
    pub stages: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// Not 0: replaces `out` instead of adding to it.
    pub replace: u32,
}

const _: () = assert!(size_of::<Stack>() == 32);
const _: () = assert!(size_of::<GateUpArgs>() == 168 && align_of::<GateUpArgs>() == 8);
const _: () = assert!(size_of::<DownArgs>() == 120 && align_of::<DownArgs>() == 8);

/// Bytes of a row of a tile's results for one token.
pub const RESULT: u32 = 4 * 16;

/// Where a kernel keeps what in shared memory. The warps' rings follow.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// The rows of activations.
    pub rows: u32,
    /// The sums of squares.
    pub squares: u32,
    /// The results of two rounds, which take turns.
    pub results: u32,
    /// Bytes of a round's results.
    pub round_bytes: u32,
    /// Bytes in all.
    pub bytes: u32,
}

/// For `rows` after `head` bytes, with `round` results of 16 rows for a row of activations.
#[must_use]
const fn places(head: u32, rows: Layout, round: u32) -> Places {
    let squares = head + rows.bytes();
    let results = squares + (4 * rows.rows * rows.blocks).next_multiple_of(16);
    let round_bytes = round * rows.rows * RESULT;
    Places { rows: head, squares, results, round_bytes, bytes: results + 2 * round_bytes }
}

/// A projection's.
#[must_use]
pub const fn project_places(rows: Layout, round: u32) -> Places {
    places(0, rows, round * rows.blocks)
}

/// A first half's, with `round` units: gates' and up's results alternate.
#[must_use]
pub const fn gate_up_places(rows: Layout, round: u32) -> Places {
    places(GROUPS_BYTES, rows, round * 2 * rows.blocks)
}

/// A second half's.
#[must_use]
pub const fn down_places(rows: Layout) -> Places {
    places(GROUPS_BYTES, rows, rows.blocks)
}
