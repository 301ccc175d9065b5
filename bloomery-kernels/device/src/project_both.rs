//! Products with weights in tiles and with weights of floats, of the same row, in one launch.

use super::abi::project_both::ProjectBothArgs;
use super::class::Float;
use super::few::project::project_block as of_tiles;
use super::project::project_block as of_floats;
use super::simt::{block, blocks};

/// Blocks of floats first: they take longer than the others.
///
/// # Safety
/// The contracts of both kinds of products, for one row; blocks for each; shared memory for either.
#[inline(always)]
pub(crate) unsafe fn project_both(args: ProjectBothArgs) {
    if block() < args.first {
        of_floats::<Float, 1>(args.floats, block());
    } else {
        of_tiles(args.tiles, block() - args.first, blocks() - args.first);
    }
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::ProjectBothArgs;

    crate::simt::bounds!(project_both, 512, 1);

    /// See [`project_both`](super::project_both).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn project_both(args: ProjectBothArgs) {
        super::project_both(args);
    }
}
