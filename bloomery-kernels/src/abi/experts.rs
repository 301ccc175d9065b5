//! Feed-forward blocks of chosen experts, and of dense layers as one expert, with weights of floats.

use super::routes::{GROUPS_BYTES, Routes, TOKENS};
use super::shape::Shape;

/// A matrix for every expert.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Stack {
    /// The first expert's matrix.
    pub weight: u64,
    /// Bytes from one expert's matrix to the next one's.
    pub stride: u64,
    /// Rows of a matrix.
    pub rows: u32,
    /// The format's id in the file.
    pub format: u32,
    /// How rows are cut.
    pub shape: Shape,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

/// `hidden[pair] = act(gate x) * (up x)`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct GateUpArgs {
    /// `[tokens][cols]` f32.
    pub x: u64,
    /// `[cols]` f32, or 0: no norm.
    pub gain: u64,
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
    /// Stages of each warp's ring: 1 to 8.
    pub stages: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// Shared memory for rows that are normalised, `4 * cols` for each token; or 0: they are read twice.
    pub raw_bytes: u32,
    /// What gates go through: see [`activation`](super::activation).
    pub act: u32,
    /// What gates and what they multiply are limited to.
    pub limit: f32,
}

/// `out[token] (+)= sum over slots of weight * down hidden[pair]`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct DownArgs {
    /// `[pairs][cols]` f32.
    pub hidden: u64,
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
    /// Stages of each warp's ring: 1 to 8.
    pub stages: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// Output columns that every block takes.
    pub share: u32,
    /// How many of the first blocks take one more.
    pub extra: u32,
    /// Not 0: replaces `out` instead of adding to it.
    pub replace: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

const _: () = assert!(size_of::<Stack>() == 56);
const _: () = assert!(size_of::<GateUpArgs>() == 192 && align_of::<GateUpArgs>() == 8);
const _: () = assert!(size_of::<DownArgs>() == 128 && align_of::<DownArgs>() == 8);

/// Shared memory of `gate_up` before the rows of activations: the table and the tokens' inverse norms.
pub const GATE_UP_HEAD: u32 = GROUPS_BYTES + 4 * TOKENS;
