//! Seats of experts, and the rows whose experts have none.

use super::super::abi::seats::{NOWHERE, OfferArgs};
use super::super::simt::{
    atomic_add, await_predecessors, ballot, barrier, block, fence_system, lane, ld_global_f32x4,
    ld_global_u32, release_successor, st_global_f32x4, st_global_u32, st_global_u32x2, st_relaxed_u64,
    st_system_u64, thread, threads, warp,
};
use super::{joined, words};

/// The kernel: row `block()`. Every warp looks at all of the row's experts, so that none waits for another one.
///
/// # Safety
/// The contract of `Seat`: buffers of the lengths in [`OfferArgs`], `out` apart from all others, rows aligned to 16 bytes, pairs of
/// words to 8; up to 32 experts a row.
#[inline(always)]
pub(crate) unsafe fn offer(args: OfferArgs) {
    await_predecessors();
    release_successor();
    let (row, asks) = (block(), args.asked != 0);
    let (mine, pair) = (lane() < args.used, u64::from(row * args.used + lane()));
    let [step, alive] = if asks { words(args.step) } else { [0; 2] };
    let expert = if mine { ld_global_u32(args.experts + 4 * pair) } else { NOWHERE };
    let weight = if mine && asks { ld_global_u32(args.weights + 4 * pair) } else { 0 };
    // On its way before it is known to be wanted.
    let (quads, mut quad) = (args.cols / 4, thread());
    let start = 4 * u64::from(row) * u64::from(args.cols);
    let from = args.normed + start;
    let mut values =
        if asks && quad < quads { ld_global_f32x4(from + 16 * u64::from(quad)) } else { [0.0; 4] };

    let exists = expert < args.count;
    let seat = if exists { ld_global_u32(args.seats + 4 * u64::from(expert)) } else { NOWHERE };
    let missing = ballot(exists && seat == NOWHERE);
    if warp() == 0 && mine {
        let number = if args.keep != 0 && seat != NOWHERE { expert } else { seat };
        st_global_u32(args.out + 4 * pair, number);
        if args.counts != 0 && exists {
            atomic_add(args.counts + 4 * u64::from(expert), 1);
        }
    }
    if !asks {
        return;
    }
    // A host that was given up is not asked again: it may still be reading.
    if alive != step {
        if thread() == 0 {
            st_relaxed_u64(args.states + 8 * u64::from(row), joined(step, 0));
        }
        return;
    }
    if warp() == 0 && mine {
        st_global_u32x2(args.pairs + 8 * pair, [expert, weight]);
    }
    if missing != 0 {
        while quad < quads {
            st_global_f32x4(args.to + start + 16 * u64::from(quad), values);
            quad += threads();
            if quad < quads {
                values = ld_global_f32x4(from + 16 * u64::from(quad));
            }
        }
    }
    barrier();
    if thread() == 0 {
        publish(&args, row, step, missing.count_ones());
    }
}

/// Tells the collecting kernel about the row, and, for the last of the rows, the host about all.
#[inline(always)]
unsafe fn publish(args: &OfferArgs, row: u32, step: u32, missing: u32) {
    // Costs a microsecond, so only where the host looks at what was written.
    if missing != 0 {
        fence_system();
    }
    st_relaxed_u64(args.states + 8 * u64::from(row), joined(step, missing));
    let mut all = missing;
    if args.rows > 1 {
        let before = atomic_add(args.ticket, 1 << 16 | missing);
        if before >> 16 != args.rows - 1 {
            return;
        }
        st_global_u32(args.ticket, 0);
        all += before & 0xffff;
        if all != 0 {
            fence_system();
        }
    }
    st_system_u64(args.asked, joined(step, all));
}
