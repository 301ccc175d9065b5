//! Head norms, rotation, and the append to the cache; latents; gates.

use super::attention::Paged;

/// Positions of the low table; the high one has an entry for every so many.
pub const LOW: u32 = 256;
/// The widest head.
pub const WIDEST: u32 = 256;

/// What turns, and how far.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Turn {
    /// `[LOW][half]` cosines and sines.
    pub low: u64,
    /// `[high_rows][half]` cosines and sines.
    pub high: u64,
    /// Pairs of a head that turn; 0 without a rotation.
    pub half: u32,
    /// Entries of the high table.
    pub high_rows: u32,
    /// Not 0: pairs are neighbours. 0: they are `half` apart.
    pub neighbours: u32,
    /// The first of a head's values that turn.
    pub first: u32,
}

/// What happens to queries, keys and values before attention: a warp for each head of each row.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct RopeArgs {
    /// The cache.
    pub cache: Paged,
    /// `[rows][heads][key_dim]` f32, changed in place.
    pub q: u64,
    /// `[rows][kv_heads][key_dim]` f32.
    pub k: u64,
    /// `[rows][kv_heads][value_dim]` f32.
    pub v: u64,
    /// `[key_dim]` f32, or 0: no norm.
    pub q_gain: u64,
    /// `[key_dim]` f32, or 0: no norm.
    pub k_gain: u64,
    /// Of queries and keys.
    pub turn: Turn,
    /// Added to the mean square of queries.
    pub q_eps: f32,
    /// Added to the mean square of keys.
    pub k_eps: f32,
    /// Query heads.
    pub heads: u32,
    /// Not used.
    pub padding: u32,
}

/// What happens to queries and a latent before attention: a warp for each query head of each row, one for the key and one for the
/// value, both of them of one KV head.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct LatentArgs {
    /// The cache. Values are the latents, keys are these and what turns.
    pub cache: Paged,
    /// `[rows][heads][key_dim]` f32: what turns is written.
    pub q: u64,
    /// `[rows][key_dim]` f32.
    pub kv: u64,
    /// `[value_dim]` f32.
    pub gain: u64,
    /// Of queries and keys; it begins behind the latent.
    pub turn: Turn,
    /// `[rows][heads][from_width]` f32: where what turns of queries comes from.
    pub from: u64,
    /// Values of a head there.
    pub from_width: u32,
    /// The first one that turns, if one turns.
    pub from_first: u32,
    /// Added to the mean square of a latent.
    pub eps: f32,
    /// Query heads.
    pub heads: u32,
}

/// Parts of attention to one, with a score for each head that has no value, and turned back: a warp for each head of each row.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct BlendArgs {
    /// `[rows][heads][dim]` f32; the second one, or 0.
    pub values: [u64; 2],
    /// `[rows][heads]` f32: logarithms of sums of `e^score`; 0, 0: the values as they are.
    pub sums: [u64; 2],
    /// `[heads]` f32.
    pub sinks: u64,
    /// `[rows][heads][dim]` f32, which may be one of `values`.
    pub out: u64,
    /// `[rows]` u32.
    pub positions: u64,
    /// By which values had been turned.
    pub turn: Turn,
    /// Rows.
    pub rows: u32,
    /// Heads.
    pub heads: u32,
    /// Values of a head.
    pub dim: u32,
    /// Not used.
    pub padding: u32,
}

/// `x *= sigmoid(gate)`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct GateArgs {
    /// `[4 fours]` f32, changed in place.
    pub x: u64,
    /// `[4 fours]` f32.
    pub gate: u64,
    /// Fours of values.
    pub fours: u32,
    /// Not used.
    pub padding: u32,
}

const _: () = assert!(size_of::<Turn>() == 32 && align_of::<Turn>() == 8);
const _: () = assert!(size_of::<RopeArgs>() == 160 && align_of::<RopeArgs>() == 8);
const _: () = assert!(size_of::<LatentArgs>() == 152 && align_of::<LatentArgs>() == 8);
const _: () = assert!(size_of::<BlendArgs>() == 104 && align_of::<BlendArgs>() == 8);
const _: () = assert!(size_of::<GateArgs>() == 24 && align_of::<GateArgs>() == 8);
