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
    /// `[tokens][cols]` f32, whose sigmoids multiply `x`, or 0.
    pub gate: u64,
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
const _: () = assert!(size_of::<ProjectArgs>() == 80 + 48 * PARTS && align_of::<ProjectArgs>() == 8);

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

/// `hidden[pair] = act(gate x) * (up x)` of one network.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct GateUp {
    /// The rows of `x`, if they are rounded already.
    pub rounded: Rounded,
    /// `[pairs][rows]` f32.
    pub hidden: u64,
    /// Who takes which tokens.
    pub routes: Routes,
    /// Gates.
    pub gate: Stack,
    /// The first expert's tiles of up, which is like `gate`.
    pub up: u64,
    /// What gates and what they multiply are limited to.
    pub limit: f32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

/// Networks of the same rows, each with blocks of its own.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct GateUpArgs {
    /// `[tokens][cols]` f32, or 0: the rows are rounded already.
    pub x: u64,
    /// `[cols]` f32, or 0: no norm.
    pub gain: u64,
    /// Experts, and the network beside them.
    pub networks: [GateUp; 2],
    /// Added to the mean square.
    pub eps: f32,
    /// Values of a row.
    pub cols: u32,
    /// Rows of `x`.
    pub tokens: u32,
    /// What gates go through: see [`activation`](super::activation).
    pub act: u32,
    /// Blocks of the first network; those behind them are the second's.
    pub first: u32,
    /// Stages of each warp's ring: 1 to 8.
    pub stages: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// Units of work between two barriers.
    pub round: u32,
}

/// `sum over slots of weight * down hidden[pair]` of one network.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Down {
    /// `[pairs][cols]` f32, or 0: the rows are rounded already.
    pub hidden: u64,
    /// The rows, if they are rounded already.
    pub rounded: Rounded,
    /// As the first half had them.
    pub routes: Routes,
    /// The matrices.
    pub down: Stack,
    /// Values of a row.
    pub cols: u32,
    /// Scales of a block of activations: 1 or 8.
    pub scales: u32,
}

/// `out[token] (+)= (the network beside the experts) + (the experts)`, each sum by itself.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct DownArgs {
    /// `[tokens][rows]` f32.
    pub out: u64,
    /// Experts, and the network beside them, of which every token has one slot: without one, it has no rows.
    pub networks: [Down; 2],
    /// Rows of `out`.
    pub tokens: u32,
    /// Stages of each warp's ring: 1 to 8.
    pub stages: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// Not 0: replaces `out` instead of adding to it.
    pub replace: u32,
}

const _: () = assert!(size_of::<Stack>() == 32);
const _: () = assert!(size_of::<GateUp>() == 104 && align_of::<GateUp>() == 8);
const _: () = assert!(size_of::<GateUpArgs>() == 2 * 104 + 48);
const _: () = assert!(size_of::<Down>() == 96 && align_of::<Down>() == 8);
const _: () = assert!(size_of::<DownArgs>() == 8 + 2 * 96 + 16 && align_of::<DownArgs>() == 8);

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

/// Where a second half keeps what in shared memory. The warps' rings follow.
#[derive(Debug, Clone, Copy)]
pub struct DownPlaces {
    /// The rows of the experts, and of the network beside them.
    pub rows: [u32; 2],
    /// The results of two rows of tiles, which take turns: the experts', `[blocks][pairs][16]`.
    pub results: u32,
    /// From there to those of the network beside them, `[blocks][tokens][16]`.
    pub beside: u32,
    /// From there to the next row's.
    pub round_bytes: u32,
    /// Bytes in all.
    pub bytes: u32,
}

/// A second half's, with rows of experts and of the network beside them.
#[must_use]
pub const fn down_places(experts: Layout, beside: Layout) -> DownPlaces {
    let second = GROUPS_BYTES + experts.bytes();
    let results = second + beside.bytes();
    let own = experts.rows * experts.blocks * RESULT;
    let round_bytes = own + beside.rows * beside.blocks * RESULT;
    let bytes = results + 2 * round_bytes;
    DownPlaces { rows: [GROUPS_BYTES, second], results, beside: own, round_bytes, bytes }
}
