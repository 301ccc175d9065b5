//! The candidates of a row, from its groups' maxima.

use super::super::abi::candidates::{CandidatesArgs, GROUPS, HEADS, PIECE, SURVIVORS};
use super::super::math::exp;
use super::super::simt::{
    WARP, add_shared_u32, await_predecessors, barrier, block, fma, lane, ld_global_u32x2, ld_shared_u32,
    ld_shared_u32x2, release_successor, shared_base, shfl_xor_f32, st_global_f32, st_global_u32,
    st_shared_u32, st_shared_u32x2, thread, threads, warp, warp_add, warp_max, warps,
};
use super::find::{LEN, better, keys, piece};
use super::powers::{ln, logit};

/// Bits of keys that a bound has: the sign, the exponent and seven more.
const BITS: u32 = 16;
/// Heads of a lane.
const OWN: usize = (HEADS / WARP) as usize;
/// Threads of a block.
const THREADS: u32 = 1024;
/// Groups of a thread.
const HELD: usize = (GROUPS / THREADS) as usize;

/// Where things are in shared memory.
#[derive(Clone, Copy)]
struct Room {
    /// The groups' keys; 0 behind the last.
    groups: u32,
    /// Groups that reach the bound.
    chosen: u32,
    /// `[key, id]` of the logits that do.
    survivors: u32,
    /// Two words for each warp.
    warps: u32,
    /// How many groups are chosen.
    choices: u32,
    /// How many logits survive, even where there is no room for all.
    count: u32,
    /// The bound.
    least: u32,
    /// How many logits reach what [`exactly`] tries.
    reach: u32,
}

impl Room {
    #[inline(always)]
    fn new() -> Self {
        let groups = shared_base();
        let chosen = groups + 4 * GROUPS;
        let survivors = chosen + 4 * GROUPS;
        let warps = survivors + 8 * SURVIVORS;
        let rest = warps + 8 * WARP;
        let (choices, count, least, reach) = (rest, rest + 4, rest + 8, rest + 12);
        Self { groups, chosen, survivors, warps, choices, count, least, reach }
    }
}

/// One row.
#[derive(Clone, Copy)]
struct Row {
    logits: u64,
    vocab: u32,
    k: u32,
}

/// The candidates and the logarithm of the sum of row `block()`.
///
/// # Safety
/// As `candidates_find`, which has run; a block of 1024 threads for every row, and the shared memory of `MERGE_BYTES`.
#[inline(always)]
pub(crate) unsafe fn candidates_merge(args: CandidatesArgs) {
    await_predecessors();
    release_successor();
    let (vocab, k) = (args.vocab, args.k);
    let scratch = args.scratch + 4 * u64::from(block()) * u64::from(args.words());
    let row = Row { logits: args.logits + 4 * u64::from(block()) * u64::from(vocab), vocab, k };
    let room = Room::new();

    let (mut held, mut top, mut i) = ([0; HELD], [0, u32::MAX], 0);
    let sums = scratch + 8 * u64::from(args.groups);
    // With the groups, so that one does not wait for the other.
    let first = if thread() < args.batches { part(sums, thread()) } else { [f32::NEG_INFINITY, 0.0] };
    let mut best = [[0, u32::MAX]; HELD];
    while i < HELD {
        let group = thread() + THREADS * i as u32;
        if group < args.groups {
            best[i] = ld_global_u32x2(scratch + 8 * u64::from(group));
        }
        i += 1;
    }
    i = 0;
    while i < HELD {
        held[i] = best[i][0];
        top = better(top, best[i]);
        st_shared_u32(room.groups + 4 * (thread() + THREADS * i as u32), held[i]);
        i += 1;
    }
    if thread() == 0 {
        st_shared_u32(room.choices, 0);
        st_shared_u32(room.count, 0);
    }
    let top = row_top(top, room.warps);
    let most = logit(top[0]);
    let mut sum = scaled(0.0, first, most);
    let mut at = thread() + THREADS;
    while at < args.batches {
        sum = scaled(sum, part(sums, at), most);
        at += THREADS;
    }
    let sum = row_sum(sum, room.warps);
    let (ids, out) = (args.ids + 4 * u64::from(block() * k), args.out + 4 * u64::from(block() * k));
    if thread() == 0 {
        let lse = if most.abs() <= f32::MAX { most + ln(sum) } else { most };
        st_global_f32(args.lse + 4 * u64::from(block()), lse);
        if k == 1 {
            st_global_u32(ids, top[1]);
            st_global_f32(out, most);
        }
    }
    if k == 1 {
        return;
    }

    if warp() == 0 {
        bound(args.groups, k, room);
    }
    barrier();
    let least = ld_shared_u32(room.least);
    let mut i = 0;
    while i < HELD {
        if held[i] >= least {
            let place = add_shared_u32(room.choices, 1);
            st_shared_u32(room.chosen + 4 * place, thread() + THREADS * i as u32);
        }
        i += 1;
    }
    barrier();
    survivors(row, args.shift, least, room);
    barrier();
    if ld_shared_u32(room.count) > SURVIVORS {
        exactly(row, room);
    }
    let count = ld_shared_u32(room.count);
    let mut at = warp();
    while at < count {
        let own = ld_shared_u32x2(room.survivors + 8 * at);
        let (mut above, mut other) = (0, lane());
        while other < count {
            let [key, id] = ld_shared_u32x2(room.survivors + 8 * other);
            above += u32::from(key > own[0] || (key == own[0] && id < own[1]));
            other += WARP;
        }
        let rank = warp_add(above);
        if lane() == 0 && rank < k {
            st_global_u32(ids + 4 * u64::from(rank), own[1]);
            st_global_f32(out + 4 * u64::from(rank), logit(own[0]));
        }
        at += warps();
    }
}

/// The largest logit and the sum of a batch.
#[inline(always)]
unsafe fn part(sums: u64, batch: u32) -> [f32; 2] {
    ld_global_u32x2(sums + 8 * u64::from(batch)).map(f32::from_bits)
}

/// `sum` and a batch's, relative to `most`.
#[inline(always)]
fn scaled(sum: f32, [of, part]: [f32; 2], most: f32) -> f32 {
    let weight = if of == f32::NEG_INFINITY { 0.0 } else { exp(of - most) };
    fma(part, weight, sum)
}

/// The largest logit's key and its id, in every thread.
#[inline(always)]
unsafe fn row_top(top: [u32; 2], room: u32) -> [u32; 2] {
    let top = warp_top(top);
    if lane() == 0 {
        st_shared_u32x2(room + 8 * warp(), top);
    }
    barrier();
    let top = warp_top(ld_shared_u32x2(room + 8 * lane()));
    barrier();
    top
}

#[inline(always)]
unsafe fn warp_top(top: [u32; 2]) -> [u32; 2] {
    let most = warp_max(top[0]);
    // The lowest id of the largest: the complements order the other way round.
    [most, !warp_max(if top[0] == most { !top[1] } else { 0 })]
}

/// The sum over all threads, in thread 0.
#[inline(always)]
unsafe fn row_sum(sum: f32, room: u32) -> f32 {
    let sum = warp_sum(sum);
    if lane() == 0 {
        st_shared_u32(room + 4 * warp(), sum.to_bits());
    }
    barrier();
    warp_sum(f32::from_bits(ld_shared_u32(room + 4 * lane())))
}

#[inline(always)]
unsafe fn warp_sum(mut sum: f32) -> f32 {
    sum += shfl_xor_f32(sum, 16);
    sum += shfl_xor_f32(sum, 8);
    sum += shfl_xor_f32(sum, 4);
    sum += shfl_xor_f32(sum, 2);
    sum + shfl_xor_f32(sum, 1)
}

/// Finds a key that at least `k` logits reach; 1 where there are fewer groups than that. One warp.
#[inline(always)]
unsafe fn bound(groups: u32, k: u32, room: Room) {
    // A head is the largest of a few groups: where there are more groups than heads there are more heads than candidates.
    let (mut heads, mut first) = ([0; OWN], 0);
    while first < groups {
        let mut i = 0;
        while i < OWN {
            let key = ld_shared_u32(room.groups + 4 * (first + lane() + WARP * i as u32));
            heads[i] = if key > heads[i] { key } else { heads[i] };
            i += 1;
        }
        first += HEADS;
    }
    let (mut least, mut bit) = (0, 0);
    while bit < BITS {
        bit += 1;
        let with = least | 1 << (32 - bit);
        let (mut reach, mut i) = (0, 0);
        while i < OWN {
            reach += u32::from(heads[i] >= with);
            i += 1;
        }
        least = if warp_add(reach) >= k { with } else { least };
    }
    if lane() == 0 {
        st_shared_u32(room.least, if least == 0 { 1 } else { least });
    }
}

/// Lists the logits of the chosen groups that reach `least`.
#[inline(always)]
unsafe fn survivors(row: Row, shift: u32, least: u32, room: Room) {
    let pieces = ld_shared_u32(room.choices) << shift;
    let first = |at: u32| {
        let group = ld_shared_u32(room.chosen + 4 * (at >> shift));
        PIECE * ((group << shift) + (at & ((1 << shift) - 1)))
    };
    let mut at = thread();
    while at < pieces {
        // Two pieces, so that the second does not wait for the first.
        let other = at + THREADS;
        let starts =
            [first(at), if other < pieces { first(other) } else { row.vocab.next_multiple_of(PIECE) }];
        let logits = starts.map(|start| piece(row.logits, start, row.vocab));
        let both = [keys(logits[0], starts[0], row.vocab), keys(logits[1], starts[1], row.vocab)];
        let mut i = 0;
        while i < 2 {
            let mut j = 0;
            while j < LEN {
                if both[i][j] >= least {
                    let place = add_shared_u32(room.count, 1);
                    if place < SURVIVORS {
                        st_shared_u32x2(room.survivors + 8 * place, [both[i][j], starts[i] + j as u32]);
                    }
                }
                j += 1;
            }
            i += 1;
        }
        at += 2 * THREADS;
    }
}

/// Lists exactly the `k` candidates: many logits are nearly equal. Bit by bit, the largest pair of key and complement of the
/// id that as many logits reach.
#[inline(always)]
unsafe fn exactly(row: Row, room: Room) {
    let mut least = [0, 0];
    let mut bit = 64;
    while bit > 0 {
        bit -= 1;
        if bit < 32 && (row.vocab - 1) >> bit == 0 {
            // No id has this bit, so every complement has it.
            least[1] |= 1 << bit;
            continue;
        }
        let with =
            if bit >= 32 { [least[0] | 1 << (bit - 32), least[1]] } else { [least[0], least[1] | 1 << bit] };
        barrier();
        if thread() == 0 {
            st_shared_u32(room.reach, 0);
        }
        barrier();
        let mut reach = 0;
        each(row, |key, id| reach += u32::from(key > with[0] || (key == with[0] && !id >= with[1])));
        let reach = warp_add(reach);
        if lane() == 0 {
            let _ = add_shared_u32(room.reach, reach);
        }
        barrier();
        least = if ld_shared_u32(room.reach) >= row.k { with } else { least };
    }
    if thread() == 0 {
        st_shared_u32(room.count, 0);
    }
    barrier();
    each(row, |key, id| {
        if key > least[0] || (key == least[0] && !id >= least[1]) {
            let place = add_shared_u32(room.count, 1);
            st_shared_u32x2(room.survivors + 8 * place, [key, id]);
        }
    });
    barrier();
}

/// Every logit of the row, by some thread.
#[inline(always)]
unsafe fn each(row: Row, mut with: impl FnMut(u32, u32)) {
    let mut first = PIECE * thread();
    while first < row.vocab {
        let keys = keys(piece(row.logits, first, row.vocab), first, row.vocab);
        let mut i = 0;
        while i < LEN {
            if keys[i] != 0 {
                with(keys[i], first + i as u32);
            }
            i += 1;
        }
        first += PIECE * threads();
    }
}
