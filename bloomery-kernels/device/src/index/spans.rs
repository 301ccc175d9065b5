//! Spans of neighbouring blocks: those with the largest scores, and choices that are limited to them.

use super::super::abi::index::IndexSpansArgs;
use super::super::simt::{
    await_predecessors, ballot, barrier, block, divide, lane, ld_global_f32, ld_global_u32,
    release_successor, st_global_f32, st_global_u32, thread, threads, uniform_warp,
};
use super::choose::largest;
use super::len;

/// The spans of row `block()`, a bit each: those with the largest scores, of equal ones the first, and the newest. A span's score is its
/// largest; it takes the place of another block's.
///
/// # Safety
/// The contract of `Select::launches`.
#[inline(always)]
pub(crate) unsafe fn index_spans(args: IndexSpansArgs) {
    await_predecessors();
    release_successor();
    let (cache, row, warp) = (&args.cache, block(), uniform_warp());
    let whole = len(cache, row) >> cache.shift;
    let count = divide(whole + args.size - 1, args.size).0;
    let line = args.spans + 4 * u64::from(row) * u64::from(args.line);
    let is_limited = whole > args.keep && count > args.spans_kept;
    if thread() == 0 {
        st_global_u32(line, u32::from(is_limited));
    }
    if !is_limited {
        return;
    }
    let scores = args.scores + 4 * u64::from(row) * u64::from(args.most);
    let mut first = 0;
    while first < count {
        let span = first + thread();
        let mut most = f32::NEG_INFINITY;
        let mut at = span * args.size;
        while at < (span * args.size + args.size).min(whole) {
            most = most.max(ld_global_f32(scores + 4 * u64::from(at)));
            at += 1;
        }
        if span + 1 == count {
            most = f32::INFINITY;
        }
        // Scores are read before they are replaced: those of later spans lie behind these places.
        barrier();
        if span < count {
            st_global_f32(scores + 4 * u64::from(span), most);
        }
        barrier();
        first += threads();
    }
    largest(scores, (count, args.spans_kept), warp, |span, is_chosen, _| {
        let word = ballot(is_chosen);
        if lane() == 0 && span < count {
            st_global_u32(line + 4 * u64::from(1 + span / 32), word);
        }
    });
}

/// Scores of blocks outside a row's spans become less than all others: a part of a row.
///
/// # Safety
/// The contract of `Select::launches`.
#[inline(always)]
pub(crate) unsafe fn index_limit(args: IndexSpansArgs) {
    await_predecessors();
    release_successor();
    let cache = &args.cache;
    let (row, slice) = divide(block(), args.slices);
    let whole = len(cache, row) >> cache.shift;
    let line = args.spans + 4 * u64::from(row) * u64::from(args.line);
    if whole <= args.keep || ld_global_u32(line) == 0 {
        return;
    }
    let scores = args.scores + 4 * u64::from(row) * u64::from(args.most);
    let mut at = slice * threads() + thread();
    while at < whole {
        let span = divide(at, args.size).0;
        let word = ld_global_u32(line + 4 * u64::from(1 + span / 32));
        if word >> (span % 32) & 1 == 0 {
            st_global_f32(scores + 4 * u64::from(at), f32::NEG_INFINITY);
        }
        at += args.slices * threads();
    }
}
