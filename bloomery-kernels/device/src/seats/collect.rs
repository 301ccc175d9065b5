//! What the host computed, added to the rows that it was asked for.

use super::super::abi::seats::CollectArgs;
use super::super::simt::{
    await_predecessors, barrier, block, ld_global_f32x4, ld_shared_u32, ld_system_acquire_u64,
    ld_system_f32x4, nanoseconds, release_successor, shared_base, st_global_f32x4, st_relaxed_u32,
    st_shared_u32, st_system_u64, thread, threads,
};
use super::{joined, words};

/// Pieces of 16 bytes that a thread has on their way over the bus.
const AHEAD: usize = 4;

/// The kernel: row `block()`. Where the row's state is known already, it waits for the host before it waits for its predecessor.
///
/// # Safety
/// The contract of `Collect`: buffers of the lengths in [`CollectArgs`], rows aligned to 16 bytes, pairs of words to 8; a word of
/// shared memory.
#[inline(always)]
pub(crate) unsafe fn collect(args: CollectArgs) {
    let state = args.states + 8 * u64::from(block());
    let [step, _] = words(args.step);
    let [mut of, mut missing] = words(state);
    let early = of == step;
    let mut heard = false;
    if early && missing != 0 && thread() == 0 {
        heard = listen(&args, step);
    }
    await_predecessors();
    release_successor();
    if !early {
        // The offer ran just before this. Without any, there is nothing to wait for.
        [of, missing] = words(state);
        missing = if of == step { missing } else { 0 };
    }
    if missing == 0 {
        return;
    }
    if thread() == 0 {
        if !early {
            heard = listen(&args, step);
        }
        st_shared_u32(shared_base(), heard as u32);
    }
    barrier();
    if ld_shared_u32(shared_base()) != 0 {
        add(&args);
    }
}

/// Waits for the host, and whether it has answered.
#[inline(always)]
unsafe fn listen(args: &CollectArgs, step: u32) -> bool {
    let alive = args.step + 4;
    if words(args.step)[1] != step {
        return false;
    }
    let start = nanoseconds();
    loop {
        let answer = ld_system_acquire_u64(args.done);
        if answer as u32 == step {
            let whole = answer >> 32 == 0;
            if !whole {
                st_relaxed_u32(alive, step.wrapping_sub(1));
            }
            return whole;
        }
        if nanoseconds().wrapping_sub(start) > args.limit {
            st_relaxed_u32(alive, step.wrapping_sub(1));
            st_system_u64(args.failed, joined(step, args.layer + 1));
            return false;
        }
    }
}

/// Adds the row's sums.
#[inline(always)]
unsafe fn add(args: &CollectArgs) {
    let quads = args.cols / 4;
    let start = 16 * u64::from(block()) * u64::from(quads);
    let mut first = thread();
    while first < quads {
        let (mut sums, mut old, mut i) = ([[0.0; 4]; AHEAD], [[0.0; 4]; AHEAD], 0);
        while i < AHEAD {
            let quad = first + i as u32 * threads();
            if quad < quads {
                let at = start + 16 * u64::from(quad);
                sums[i] = ld_system_f32x4(args.sums + at);
                old[i] = ld_global_f32x4(args.out + at);
            }
            i += 1;
        }
        i = 0;
        while i < AHEAD {
            let quad = first + i as u32 * threads();
            if quad < quads {
                let (sum, old) = (sums[i], old[i]);
                let new = [old[0] + sum[0], old[1] + sum[1], old[2] + sum[2], old[3] + sum[3]];
                st_global_f32x4(args.out + start + 16 * u64::from(quad), new);
            }
            i += 1;
        }
        first += AHEAD as u32 * threads();
    }
}
