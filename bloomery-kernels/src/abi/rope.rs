//! Head norms, rotation, and the append to the cache.

use super::attention::Paged;

/// Positions of the low table; the high one has an entry for every so many.
pub const LOW: u32 = 256;
/// The widest head.
pub const WIDEST: u32 = 256;

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
    /// `[LOW][half]` cosines and sines.
    pub low: u64,
    /// `[high_rows][half]` cosines and sines.
    pub high: u64,
    /// Added to the mean square of queries.
    pub q_eps: f32,
    /// Added to the mean square of keys.
    pub k_eps: f32,
    /// Query heads.
    pub heads: u32,
    /// Pairs of a head that turn; 0 without a rotation.
    pub half: u32,
    /// Entries of the high table.
    pub high_rows: u32,
    /// Not 0: pairs are neighbours. 0: they are `half` apart.
    pub neighbours: u32,
}

const _: () = assert!(size_of::<RopeArgs>() == 152 && align_of::<RopeArgs>() == 8);
