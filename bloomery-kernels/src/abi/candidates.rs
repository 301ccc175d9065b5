//! The largest logits of rows, and the logarithm of their sums.

/// Candidates of a row, at most.
pub const MOST: u32 = 128;
/// Logits that a warp looks at together: their sum is one term of the row's.
pub const BATCH: u32 = 256;
/// Groups of a row, at most.
pub const GROUPS: u32 = 2048;
/// Maxima among which a bound of the wanted logits is looked for, at most.
pub const HEADS: u32 = 512;
/// Logits above the bound that are ranked, at most.
pub const SURVIVORS: u32 = 1024;

/// Logits that a lane has of a batch, and of the smallest group.
pub const PIECE: u32 = 8;

/// The `k` largest logits of every row.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct CandidatesArgs {
    /// `[rows][vocab]` f32.
    pub logits: u64,
    /// `[rows][words]` u32: the largest keys of groups and their ids, then for each batch its maximum and its sum.
    pub scratch: u64,
    /// `[rows][k]` u32.
    pub ids: u64,
    /// `[rows][k]` f32.
    pub out: u64,
    /// `[rows]` f32.
    pub lse: u64,
    /// Logits of a row.
    pub vocab: u32,
    /// Candidates of a row.
    pub k: u32,
    /// Rows.
    pub rows: u32,
    /// Batches of a row.
    pub batches: u32,
    /// Groups of a row.
    pub groups: u32,
    /// Pieces of a group are 2 to the power of this.
    pub shift: u32,
}

impl CandidatesArgs {
    /// Words of scratch memory for a row.
    #[must_use]
    pub const fn words(&self) -> u32 {
        (2 * self.groups + 2 * self.batches).next_multiple_of(4)
    }
}

const _: () = assert!(size_of::<CandidatesArgs>() == 64 && align_of::<CandidatesArgs>() == 8);

/// Shared memory of `candidates_merge`: groups' keys, groups chosen, survivors, and what warps tell each other.
pub const MERGE_BYTES: u32 = 4 * GROUPS + 4 * GROUPS + 8 * SURVIVORS + 4 * (2 * 32 + 8);
