//! A layer whose experts are partly with the host: who is asked for what, and what came of it.
//!
//! ```text
//! card   route -> offer ------------> experts that have seats -> collect -> next layer
//!                   | step, pairs, rows                            ^ step, sums
//! host              +------------> the other experts --------------+
//! ```
//!
//! Where the host has some of the others brought to seats meanwhile, a fetch stands before the collection: it waits for them, and they
//! are multiplied on the card.
//!
//! A word that says that something is there carries the number of the step, so that nothing has to be cleared between steps, and
//! a graph is replayed as it is. Steps have other numbers than those just before.

pub(crate) mod collect;
pub(crate) mod fetch;
pub(crate) mod offer;

use super::simt::ld_relaxed_u64;

/// Two words that were written as one.
#[inline(always)]
pub(crate) unsafe fn words(at: u64) -> [u32; 2] {
    let both = ld_relaxed_u64(at);
    [both as u32, (both >> 32) as u32]
}

/// As [`words`] reads them.
#[inline(always)]
pub(crate) fn joined(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    crate::simt::bounds!(seats_offer, 512, 1);
    crate::simt::bounds!(seats_collect, 512, 1);
    crate::simt::bounds!(seats_fetch, 256, 1);
    crate::simt::bounds!(seats_arrive, 32, 1);

    /// See [`offer`](super::offer::offer).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn seats_offer(args: crate::abi::seats::OfferArgs) {
        super::offer::offer(args);
    }

    /// See [`collect`](super::collect::collect).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn seats_collect(args: crate::abi::seats::CollectArgs) {
        super::collect::collect(args);
    }

    /// See [`fetch`](super::fetch::fetch).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn seats_fetch(args: crate::abi::seats::FetchArgs) {
        super::fetch::fetch(args);
    }

    /// See [`arrive`](super::fetch::arrive).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn seats_arrive(args: crate::abi::seats::ArriveArgs) {
        super::fetch::arrive(args);
    }
}
