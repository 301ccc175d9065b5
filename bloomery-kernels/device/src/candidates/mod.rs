//! The largest logits of rows, and the logarithm of the sum of their powers of e.
//!
//! Two launches. The first looks at every logit once, a warp at 256 of them, and leaves the largest of every group and the
//! sum of every batch. The second has a block for every row: the `k`-th largest of the groups' maxima is a bound that at
//! least `k` logits reach and few more; only groups that reach it are looked at again, and the logits found are ranked
//! against each other. Whatever the order in which they are found, ranks are the same.

mod find;
mod merge;
mod powers;

pub(crate) use find::candidates_find;
pub(crate) use merge::candidates_merge;

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::super::abi::candidates::CandidatesArgs;

    crate::simt::bounds!(candidates_find, 256, 4);
    crate::simt::bounds!(candidates_merge, 1024, 1);

    /// See [`candidates_find`](super::candidates_find).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn candidates_find(args: CandidatesArgs) {
        super::candidates_find(args);
    }

    /// See [`candidates_merge`](super::candidates_merge).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn candidates_merge(args: CandidatesArgs) {
        super::candidates_merge(args);
    }
}
