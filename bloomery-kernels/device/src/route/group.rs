//! Pairs in the order of their experts: a counting sort.
//!
//! A block takes 2048 neighbouring pairs and each of its warps an equal run of them, so that pairs of one expert keep their
//! order: by block, then by warp, then by lane. Every warp counts in memory of its own; lanes that hold the same expert
//! find each other without atomics.

use super::super::abi::route::{GROUP_PAIRS, GROUP_THREADS, GroupArgs};
use super::super::simt::{
    WARP, await_predecessors, barrier, block, divide, lane, ld_global_u32, ld_shared_u32, release_successor,
    shared_base, shfl, st_global_u32, st_global_u32x4, st_shared_u32, thread, threads, warp, warp_barrier,
    warp_match, warps,
};

/// Turns of a warp.
const TURNS: usize = (GROUP_PAIRS / GROUP_THREADS) as usize;
/// Counts that are loaded together.
const AHEAD: usize = 16;
/// What a thread holds behind the last pair.
const NONE: u32 = u32::MAX;

/// The experts of this thread's pairs, one for every turn.
#[inline(always)]
unsafe fn experts(args: &GroupArgs) -> [u32; TURNS] {
    let (mut out, mut turn) = ([NONE; TURNS], 0);
    while turn < TURNS {
        let pair = pair(turn as u32);
        if pair < args.pairs {
            out[turn] = ld_global_u32(args.experts + 4 * u64::from(pair));
        }
        turn += 1;
    }
    turn = 0;
    while turn < TURNS {
        out[turn] = if out[turn] < args.count { out[turn] } else { NONE };
        turn += 1;
    }
    out
}

/// This thread's pair of a turn.
#[inline(always)]
fn pair(turn: u32) -> u32 {
    block() * GROUP_PAIRS + (warp() * TURNS as u32 + turn) * WARP + lane()
}

/// Counts every warp's pairs: `[warps][count]` words of shared memory.
#[inline(always)]
unsafe fn count(args: &GroupArgs, experts: [u32; TURNS]) {
    let mut at = thread();
    while at < warps() * args.count {
        st_shared_u32(shared_base() + 4 * at, 0);
        at += threads();
    }
    barrier();
    let mut turn = 0;
    while turn < TURNS {
        let expert = experts[turn];
        let same = warp_match(expert);
        if expert != NONE && same.trailing_zeros() == lane() {
            let at = place(args, warp(), expert);
            st_shared_u32(at, ld_shared_u32(at) + same.count_ones());
        }
        warp_barrier();
        turn += 1;
    }
    barrier();
}

/// Where warp `warp` counts `expert`.
#[inline(always)]
fn place(args: &GroupArgs, warp: u32, expert: u32) -> u32 {
    shared_base() + 4 * (warp * args.count + expert)
}

/// The pairs of each expert in block `block()` of pairs.
///
/// # Safety
/// The contract of `Group`; shared memory for a word for every warp and expert, as many threads as [`GROUP_THREADS`].
#[inline(always)]
pub(crate) unsafe fn group_count(args: GroupArgs) {
    await_predecessors();
    release_successor();
    count(&args, experts(&args));
    let expert = thread();
    if expert < args.count {
        let (mut sum, mut warp) = (0, 0);
        while warp < warps() {
            sum += ld_shared_u32(place(&args, warp, expert));
            warp += 1;
        }
        st_global_u32(args.counts + 4 * u64::from(block() * args.count + expert), sum);
    }
}

/// Sums over all threads before this one, and over all, of two values; `room` is 2 words of shared memory for each warp.
#[inline(always)]
unsafe fn scan(mut values: [u32; 2], room: u32) -> ([u32; 2], [u32; 2]) {
    let own = values;
    let mut distance = 1;
    while distance < WARP {
        let from = lane().saturating_sub(distance);
        let below = [shfl(values[0], from), shfl(values[1], from)];
        if lane() >= distance {
            values = [values[0] + below[0], values[1] + below[1]];
        }
        distance *= 2;
    }
    if lane() == WARP - 1 {
        st_shared_u32(room + 8 * warp(), values[0]);
        st_shared_u32(room + 8 * warp() + 4, values[1]);
    }
    barrier();
    let (mut before, mut all, mut i) = ([values[0] - own[0], values[1] - own[1]], [0; 2], 0);
    while i < warps() {
        let sums = [ld_shared_u32(room + 8 * i), ld_shared_u32(room + 8 * i + 4)];
        all = [all[0] + sums[0], all[1] + sums[1]];
        if i < warp() {
            before = [before[0] + sums[0], before[1] + sums[1]];
        }
        i += 1;
    }
    (before, all)
}

/// Block `block()` of pairs to its places; the first block also writes offsets and tiles.
///
/// # Safety
/// As [`group_count`], which has run if there are several blocks, with 2 words more for every warp.
#[inline(always)]
pub(crate) unsafe fn group_place(args: GroupArgs) {
    await_predecessors();
    release_successor();
    let experts = experts(&args);
    let expert = thread();
    let (mut total, mut earlier) = (0, 0);
    if args.blocks > 1 && expert < args.count {
        let mut first = 0;
        while first < args.blocks {
            let (mut pairs, mut i) = ([0; AHEAD], 0);
            while i < AHEAD {
                let other = first + i as u32;
                if other < args.blocks {
                    pairs[i] = ld_global_u32(args.counts + 4 * u64::from(other * args.count + expert));
                }
                i += 1;
            }
            i = 0;
            while i < AHEAD {
                total += pairs[i];
                earlier += if first + (i as u32) < block() { pairs[i] } else { 0 };
                i += 1;
            }
            first += AHEAD as u32;
        }
    }
    count(&args, experts);
    if args.blocks == 1 && expert < args.count {
        let mut warp = 0;
        while warp < warps() {
            total += ld_shared_u32(place(&args, warp, expert));
            warp += 1;
        }
    }
    let room = shared_base() + 4 * warps() * args.count;
    let (tiles, _) = divide(total + args.tile - 1, args.tile);
    let (before, all) = scan([total, tiles], room);
    if expert < args.count {
        // Counts become places.
        let (mut next, mut warp) = (before[0] + earlier, 0);
        while warp < warps() {
            let at = place(&args, warp, expert);
            let pairs = ld_shared_u32(at);
            st_shared_u32(at, next);
            next += pairs;
            warp += 1;
        }
    }
    barrier();
    let mut turn = 0;
    while turn < TURNS {
        let expert = experts[turn];
        let same = warp_match(expert);
        let at = place(&args, warp(), if expert == NONE { 0 } else { expert });
        let next = ld_shared_u32(at);
        warp_barrier();
        if expert != NONE {
            let rank = (same & ((1 << lane()) - 1)).count_ones();
            st_global_u32(args.order + 4 * u64::from(next + rank), pair(turn as u32));
            if rank == 0 {
                st_shared_u32(at, next + same.count_ones());
            }
        }
        warp_barrier();
        turn += 1;
    }
    if block() == 0 {
        if expert < args.count {
            st_global_u32(args.offsets + 4 * u64::from(expert), before[0]);
            let mut tile = 0;
            while tile < tiles {
                let (done, at) = (tile * args.tile, args.tiles + 16 * u64::from(before[1] + tile));
                st_global_u32x4(at, [expert, before[0] + done, (total - done).min(args.tile), 0]);
                tile += 1;
            }
        }
        if thread() == 0 {
            st_global_u32(args.offsets + 4 * u64::from(args.count), all[0]);
            st_global_u32(args.tile_count, all[1]);
        }
    }
}
