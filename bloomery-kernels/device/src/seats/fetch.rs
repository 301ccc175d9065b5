//! Experts without seats that the host has brought for a step.

use super::super::abi::seats::{ArriveArgs, FetchArgs, NOWHERE};
use super::super::simt::{
    await_predecessors, barrier, fence_system, ld_global_u32, ld_shared_u32, ld_system_acquire_u64,
    nanoseconds, release_successor, shared_base, st_global_u32, st_relaxed_u32, st_shared_u32, st_system_u64,
    thread, threads,
};
use super::{joined, words};

/// The kernel, one block: the seats of pairs whose experts were brought, once they are there.
///
/// # Safety
/// The contract of `Fetch`: buffers of the lengths in [`FetchArgs`], pairs of words to 8 bytes; two words of shared memory.
#[inline(always)]
pub(crate) unsafe fn fetch(args: FetchArgs) {
    await_predecessors();
    let [step, alive] = words(args.step);
    let [lacks, heard] = [shared_base(), shared_base() + 4];
    if thread() == 0 {
        st_shared_u32(lacks, 0);
        st_shared_u32(heard, 0);
    }
    barrier();
    let mut row = thread();
    while row < args.rows {
        let [of, missing] = words(args.states + 8 * u64::from(row));
        if of == step && missing != 0 {
            st_shared_u32(lacks, 1);
        }
        row += threads();
    }
    barrier();
    // Who lacks nothing has not asked, and a host that was given up tells nothing.
    if thread() == 0 && ld_shared_u32(lacks) != 0 && alive == step {
        st_shared_u32(heard, listen(&args, step) as u32);
    }
    barrier();
    // Not before: what comes next may fill all multiprocessors while it waits, and what makes tiles of the experts needs room.
    release_successor();
    let came = ld_shared_u32(heard) != 0;
    let mut pair = thread();
    while pair < args.pairs {
        let seat =
            if came { ld_system_acquire_u64(args.seats + 8 * u64::from(pair)) as u32 } else { NOWHERE };
        let mut number = seat;
        if seat != NOWHERE && args.homes != 0 {
            let expert = ld_global_u32(args.experts + 4 * u64::from(pair));
            number = if expert < args.count { expert } else { NOWHERE };
            if number != NOWHERE {
                st_global_u32(args.homes + 4 * u64::from(expert), seat);
            }
        }
        st_global_u32(args.out + 4 * u64::from(pair), number);
        pair += threads();
    }
}

/// The kernel that follows copies, one thread: they have arrived.
///
/// # Safety
/// A word at `arrived`.
#[inline(always)]
pub(crate) unsafe fn arrive(args: ArriveArgs) {
    await_predecessors();
    release_successor();
    if thread() == 0 {
        fence_system();
        st_relaxed_u32(args.arrived, args.number);
    }
}

/// Waits for what the host decides, and for what it has brought; whether there is something.
#[inline(always)]
unsafe fn listen(args: &FetchArgs, step: u32) -> bool {
    let (start, mut told) = (nanoseconds(), false);
    let mut number = 0;
    loop {
        if !told {
            let word = ld_system_acquire_u64(args.told);
            told = word as u32 == step;
            number = (word >> 32) as u32;
        }
        if told && (number == 0 || ld_system_acquire_u64(args.arrived) as u32 == number) {
            return number != 0;
        }
        if nanoseconds().wrapping_sub(start) > args.limit {
            st_relaxed_u32(args.step + 4, step.wrapping_sub(1));
            st_system_u64(args.failed, joined(step, args.layer + 1));
            return false;
        }
    }
}
