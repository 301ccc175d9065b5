//! What a router leaves, and the table that blocks make of it.
//!
//! There are `[tokens][used]` expert numbers and as many weights. A *pair* is a token and one of its slots:
//! `pair = token * used + slot`. A number that is no expert leaves the pair out: rows that only fill up a graph have
//! such numbers.

/// Pairs of a launch of a few rows, at most.
pub const PAIRS: u32 = 128;
/// Tokens of such a launch, at most.
pub const TOKENS: u32 = 8;
/// Shared memory of the groups' table: see the kernels' `groups`.
pub const GROUPS_BYTES: u32 = 16 + PAIRS * (4 + 4 + 8 + 4 + 4);

/// What a router writes.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Routes {
    /// `[tokens][used]` u32. 0: every token goes to expert 0, with weight 1.
    pub experts: u64,
    /// `[tokens][used]` f32.
    pub weights: u64,
    /// Experts of a token.
    pub used: u32,
    /// Experts of the layer.
    pub count: u32,
}

const _: () = assert!(size_of::<Routes>() == 24);
