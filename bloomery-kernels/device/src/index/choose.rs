//! The blocks with the largest scores, of equal ones those that come first.
//!
//! Scores become integers of the same order. The smallest of the chosen ones is found digit by digit from counts of
//! digits; then each warp looks at scores of its own, in order, and knows from counts of larger and equal ones before them
//! where its chosen blocks go.

use super::super::abi::attention::PAGE;
use super::super::abi::index::{BINS, CHOOSE_THREADS, IndexChooseArgs};
use super::super::simt::{
    WARP, add_shared_u32, await_predecessors, ballot, barrier, block, lane, ld_global_u32, ld_shared_u32,
    ld_shared_u32x2, release_successor, shared_base, shfl, st_global_u32, st_shared_u32, st_shared_u32x2,
    thread, threads, uniform_warp, warp_add, warp_match,
};
use super::{len, of_page, page};

/// Scores that a thread loads at once.
const BATCH: usize = 4;
/// A lane that has no digit: no digit is so large.
const NONE: u32 = u32::MAX;

/// The choice of row `block()`.
///
/// # Safety
/// The contract of `Select::launches`.
#[inline(always)]
pub(crate) unsafe fn index_choose(args: IndexChooseArgs) {
    await_predecessors();
    release_successor();
    let (cache, row, warp) = (&args.cache, block(), uniform_warp());
    let (len, keep, is_ends) = (len(cache, row), args.keep, args.ends != 0);
    let sequence = ld_global_u32(cache.sequences + 4 * u64::from(row));
    let whole = len >> cache.shift;
    let rest = u32::from(!is_ends && len & ((1 << cache.shift) - 1) != 0);
    let of_block = if is_ends { (1 << cache.shift) - 1 } else { 0 };
    let places = args.places + 4 * u64::from(row) * u64::from(args.line);
    let put = |at: u32, block: u32| {
        let place = page(cache, sequence, block) * PAGE + (of_page(cache, block) << cache.shift) + of_block;
        st_global_u32(places + 4 * u64::from(at), place);
    };
    if whole <= keep {
        let mut at = thread();
        while at < whole + rest {
            put(at, at);
            at += threads();
        }
        return;
    }
    let scores = args.scores + 4 * u64::from(row) * u64::from(args.most);
    largest(scores, (whole, keep), warp, |block, is_chosen, place| {
        if is_chosen {
            put(place, block);
        }
    });
    if thread() == 0 && rest != 0 {
        put(keep, whole);
    }
}

/// Calls `visit` with the numbers of all scores, 32 neighbours at a time and one in each lane, whether one is among the `keep` largest
/// of `whole`, and how many of these come before it. The last numbers may be beyond the last score.
///
/// # Safety
/// All threads of a block of `CHOOSE_THREADS` get here; its shared memory is that of `CHOOSE_BYTES`.
#[inline(always)]
pub(super) unsafe fn largest(
    scores: u64,
    (whole, keep): (u32, u32),
    warp: u32,
    visit: impl Fn(u32, bool, u32),
) {
    let (bound, equals) = bound(scores, whole, keep, warp);

    // Whole warps' worth of scores for every warp.
    let each = whole.div_ceil(CHOOSE_THREADS) * WARP;
    let first = (each * warp).min(whole);
    let end = (first + each).min(whole);
    let warp_words = shared_base() + 4 * BINS;
    let (mut above, mut equal) = (0, 0);
    let mut at = first;
    while at < end {
        let keys = batch(scores, at + lane(), WARP, end);
        let mut i = 0;
        while i < BATCH {
            above += ballot(keys[i] > bound).count_ones();
            equal += ballot(keys[i] == bound && at + WARP * i as u32 + lane() < end).count_ones();
            i += 1;
        }
        at += WARP * BATCH as u32;
    }
    if lane() == 0 {
        st_shared_u32x2(warp_words + 8 * warp, [above, equal]);
    }
    barrier();
    let mut before = [0; 2];
    if lane() < warp {
        before = ld_shared_u32x2(warp_words + 8 * lane());
    }
    let (mut above, mut equal) = (warp_add(before[0]), warp_add(before[1]));
    let lower = (1_u32 << lane()) - 1;
    at = first;
    while at < end {
        let keys = batch(scores, at + lane(), WARP, end);
        let mut i = 0;
        while i < BATCH {
            let block = at + WARP * i as u32 + lane();
            let (is_above, is_equal) = (keys[i] > bound, keys[i] == bound && block < end);
            let (all_above, all_equal) = (ballot(is_above), ballot(is_equal));
            let equal_before = equal + (all_equal & lower).count_ones();
            let place = above + (all_above & lower).count_ones() + equal_before.min(equals);
            if at + WARP * (i as u32) < end {
                visit(block, is_above || (is_equal && equal_before < equals), place);
            }
            above += all_above.count_ones();
            equal += all_equal.count_ones();
            i += 1;
        }
        at += WARP * BATCH as u32;
    }
}

/// Larger for larger scores.
#[inline(always)]
fn key(bits: u32) -> u32 {
    if bits >> 31 == 0 { bits | 0x8000_0000 } else { !bits }
}

/// The keys of the scores `at`, `at + step`, ...; 0 from `end` on.
#[inline(always)]
unsafe fn batch(scores: u64, at: u32, step: u32, end: u32) -> [u32; BATCH] {
    let (mut bits, mut i) = ([0; BATCH], 0);
    while i < BATCH {
        // Again the last one in place of those that are not there, so that no load waits for a branch.
        bits[i] = ld_global_u32(scores + 4 * u64::from((at + step * i as u32).min(end - 1)));
        i += 1;
    }
    i = 0;
    while i < BATCH {
        bits[i] = if at + step * (i as u32) < end { key(bits[i]) } else { 0 };
        i += 1;
    }
    bits
}

/// The `keep`th largest of `count` keys, and how many of those equal to it are among the first `keep`.
#[inline(always)]
unsafe fn bound(scores: u64, count: u32, keep: u32, warp: u32) -> (u32, u32) {
    let (counters, words) = (shared_base(), shared_base() + 4 * BINS);
    let result = words + 8 * 32;
    let (mut found, mut known, mut wanted) = (0, 0, keep);
    let mut digit = 0;
    while digit < 3 {
        // 11 bits, 11, 10.
        let shift = if digit == 0 { 21 } else { 10 * (2 - digit) };
        let mask = if digit == 2 { 1023 } else { BINS - 1 };
        let mut bin = thread();
        while bin < BINS {
            st_shared_u32(counters + 4 * bin, 0);
            bin += threads();
        }
        barrier();
        let mut at = WARP * warp;
        while at < count {
            let keys = batch(scores, at + lane(), threads(), count);
            let mut i = 0;
            while i < BATCH {
                let there = at + lane() + threads() * (i as u32) < count && keys[i] & known == found;
                let digit = if there { keys[i] >> shift & mask } else { NONE };
                // One for all lanes with the same digit: most scores have few.
                let same = warp_match(digit);
                if there && same.trailing_zeros() == lane() {
                    add_shared_u32(counters + 4 * digit, same.count_ones());
                }
                i += 1;
            }
            at += threads() * BATCH as u32;
        }
        barrier();
        // A thread has two digits, the first threads the largest.
        let high = BINS - 1 - 2 * thread();
        let [low_count, high_count] = ld_shared_u32x2(counters + 4 * (high - 1));
        let mut until = low_count + high_count;
        let mut step = 1;
        while step < WARP {
            let before = shfl(until, lane().wrapping_sub(step) % WARP);
            until += if lane() >= step { before } else { 0 };
            step *= 2;
        }
        if lane() == WARP - 1 {
            st_shared_u32(words + 4 * warp, until);
        }
        barrier();
        let mut earlier = 0;
        if lane() < warp {
            earlier = ld_shared_u32(words + 4 * lane());
        }
        until += warp_add(earlier);
        let before = until - low_count - high_count;
        if before < wanted && wanted <= until {
            let [digit, before] =
                if wanted <= before + high_count { [high, before] } else { [high - 1, before + high_count] };
            st_shared_u32x2(result, [digit, before]);
        }
        barrier();
        let [value, before] = ld_shared_u32x2(result);
        found |= value << shift;
        known |= mask << shift;
        wanted -= before;
        digit += 1;
    }
    (found, wanted)
}
