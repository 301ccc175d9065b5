//! What latent attention does before it: products of queries, and beside them the append and the queries' tails.

use super::abi::heads::AbsorbArgs;
use super::heads::per_head;
use super::latent::append_latents;
use super::simt::block;

/// Blocks of products first, then those of everything else.
///
/// # Safety
/// The contract of `AbsorbAppend::launch`.
#[inline(always)]
pub(crate) unsafe fn absorb_append(args: AbsorbArgs) {
    if block() < args.products {
        per_head::<false>(args.heads);
    } else {
        append_latents(&args.latent, block() - args.products);
    }
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::AbsorbArgs;

    crate::simt::bounds!(absorb_append, 128, 4);

    /// See [`absorb_append`](super::absorb_append).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn absorb_append(args: AbsorbArgs) {
        super::absorb_append(args);
    }
}
