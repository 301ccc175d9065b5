//! An index over blocks of positions, and the choice of the blocks that rows attend to.
//!
//! * [`append`]: keys of a step's rows into pages, and keys of the blocks that they complete.
//! * [`score`]: how well blocks fit rows, of rows that do not see all of them.
//! * [`choose`]: the blocks that fit best, as places in the cache.
//! * [`made`]: keys of blocks that come as such.
//! * [`spans`]: spans of blocks to which later choices are limited.

mod append;
mod choose;
mod made;
mod score;
mod spans;

pub(crate) use append::index_append;
pub(crate) use choose::index_choose;
pub(crate) use made::index_made;
pub(crate) use score::index_score;
pub(crate) use spans::{index_limit, index_spans};

use super::abi::attention::PAGE;
use super::abi::index::Indexed;
use super::simt::ld_global_u32;

/// Positions up to a row, itself included.
///
/// # Safety
/// The lengths of [`Indexed`]; `row` is one of the launch.
#[inline(always)]
unsafe fn len(cache: &Indexed, row: u32) -> u32 {
    ld_global_u32(cache.positions + 4 * u64::from(row)).min(cache.stride * PAGE - 1) + 1
}

/// The page of a block of a sequence, one of the index's whatever the table says.
///
/// # Safety
/// The lengths of [`Indexed`].
#[inline(always)]
unsafe fn page(cache: &Indexed, sequence: u32, block: u32) -> u32 {
    let line = u64::from(sequence.min(cache.tables - 1)) * u64::from(cache.stride);
    let entry = ((block << cache.shift) / PAGE).min(cache.stride - 1);
    ld_global_u32(cache.table + 4 * (line + u64::from(entry))).min(cache.pages - 1)
}

/// The number of a block in its page.
#[inline(always)]
fn of_page(cache: &Indexed, block: u32) -> u32 {
    block & ((PAGE >> cache.shift) - 1)
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::super::abi::index::{IndexAppendArgs, IndexChooseArgs, IndexScoreArgs, IndexSpansArgs};

    crate::simt::bounds!(index_append, 128, 4);
    crate::simt::bounds!(index_score_8, 256, 2);
    crate::simt::bounds!(index_score_32, 256, 2);
    crate::simt::bounds!(index_choose, 1024, 1);
    crate::simt::bounds!(index_made, 128, 4);
    crate::simt::bounds!(index_spans, 1024, 1);
    crate::simt::bounds!(index_limit, 256, 4);

    /// See [`index_append`](super::index_append).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn index_append(args: IndexAppendArgs) {
        super::index_append(args);
    }

    /// Up to 8 heads of all rows of a block of threads.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn index_score_8(args: IndexScoreArgs) {
        super::index_score::<8, 1, 4>(args);
    }

    /// Up to 32 heads of all rows of a block of threads.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn index_score_32(args: IndexScoreArgs) {
        super::index_score::<32, 2, 1>(args);
    }

    /// See [`index_choose`](super::index_choose).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn index_choose(args: IndexChooseArgs) {
        super::index_choose(args);
    }

    /// See [`index_made`](super::index_made).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn index_made(args: IndexAppendArgs) {
        super::index_made(args);
    }

    /// See [`index_spans`](super::index_spans).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn index_spans(args: IndexSpansArgs) {
        super::index_spans(args);
    }

    /// See [`index_limit`](super::index_limit).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn index_limit(args: IndexSpansArgs) {
        super::index_limit(args);
    }
}
