//! Every logit once.

use super::super::abi::candidates::{BATCH, CandidatesArgs, PIECE};
use super::super::math::exp;
use super::super::simt::{
    WARP, await_predecessors, block, divide, lane, ld_global_f32, ld_global_f32x4, release_successor,
    shfl_xor, shfl_xor_f32, st_global_u32x2, warp, warp_max, warps,
};
use super::powers::{key, logit};

/// Logits of a piece.
pub(super) const LEN: usize = PIECE as usize;

/// The eight logits from `first` on; anything behind the end of the row.
///
/// # Safety
/// The row at `row` is readable and of `vocab` logits; `first` is a multiple of 8.
#[inline(always)]
pub(super) unsafe fn piece(row: u64, first: u32, vocab: u32) -> [f32; LEN] {
    let at = row + 4 * u64::from(first);
    let mut out = [0.0; LEN];
    if vocab.is_multiple_of(4) {
        // Rows are aligned to 16 bytes and end with a whole load.
        let mut i = 0;
        while i < LEN {
            if first + (i as u32) < vocab {
                let [a, b, c, d] = ld_global_f32x4(at + 4 * i as u64);
                (out[i], out[i + 1], out[i + 2], out[i + 3]) = (a, b, c, d);
            }
            i += 4;
        }
    } else {
        let mut i = 0;
        while i < LEN {
            if first + (i as u32) < vocab {
                out[i] = ld_global_f32(at + 4 * i as u64);
            }
            i += 1;
        }
    }
    out
}

/// Their keys; 0 behind the end of the row.
#[inline(always)]
pub(super) fn keys(logits: [f32; LEN], first: u32, vocab: u32) -> [u32; LEN] {
    let (mut out, mut i) = ([0; LEN], 0);
    while i < LEN {
        out[i] = if first + (i as u32) < vocab { key(logits[i]) } else { 0 };
        i += 1;
    }
    out
}

/// The larger of two keys with their ids, of equal ones the one with the lower id.
#[inline(always)]
pub(super) fn better(a: [u32; 2], b: [u32; 2]) -> [u32; 2] {
    if a[0] > b[0] || (a[0] == b[0] && a[1] < b[1]) { a } else { b }
}

/// Maxima of groups and sums of batches: a warp takes a batch, or all of a longer group.
///
/// # Safety
/// The contract of `Candidates`: buffers of the lengths in [`CandidatesArgs`], aligned to 16 bytes; a warp for every batch or
/// longer group of every row.
#[inline(always)]
pub(crate) unsafe fn candidates_find(args: CandidatesArgs) {
    await_predecessors();
    release_successor();
    let (vocab, pieces) = (args.vocab, 1 << args.shift);
    let longer = pieces > WARP;
    let batches = if longer { pieces / WARP } else { 1 };
    let (row, turn) = divide(block() * warps() + warp(), if longer { args.groups } else { args.batches });
    if row >= args.rows {
        return;
    }
    let logits = args.logits + 4 * u64::from(row) * u64::from(vocab);
    let scratch = args.scratch + 4 * u64::from(row) * u64::from(args.words());
    let sums = scratch + 8 * u64::from(args.groups);
    let mut top = [0, u32::MAX];
    let mut batch = turn * batches;
    while batch < args.batches && batch < (turn + 1) * batches {
        let id = batch * BATCH + PIECE * lane();
        let keys = keys(piece(logits, id, vocab), id, vocab);
        let (mut own, mut i) = ([0, u32::MAX], 0);
        while i < LEN {
            own = better(own, [keys[i], id + i as u32]);
            i += 1;
        }
        let most = logit(warp_max(own[0]));
        let (mut sum, mut i) = (0.0, 0);
        while i < LEN {
            sum += if keys[i] == 0 { 0.0 } else { exp(logit(keys[i]) - most) };
            i += 1;
        }
        sum += shfl_xor_f32(sum, 16);
        sum += shfl_xor_f32(sum, 8);
        sum += shfl_xor_f32(sum, 4);
        sum += shfl_xor_f32(sum, 2);
        sum += shfl_xor_f32(sum, 1);
        // Minus infinity less itself is no number.
        sum = if most == f32::NEG_INFINITY { 0.0 } else { sum };
        if lane() == 0 {
            st_global_u32x2(sums + 8 * u64::from(batch), [most.to_bits(), sum.to_bits()]);
        }
        top = better(top, own);
        batch += 1;
    }
    let mut mask = 1;
    while mask < pieces && mask < WARP {
        top = better(top, [shfl_xor(top[0], mask), shfl_xor(top[1], mask)]);
        mask *= 2;
    }
    let group = if longer { turn } else { (turn * WARP + lane()) >> args.shift };
    if lane() & (pieces - 1) == 0 && group < args.groups {
        st_global_u32x2(scratch + 8 * u64::from(group), top);
    }
}
