//! What hashed n-grams add to residual streams: each stream weighs the n-grams' value by how well their key fits it, and a causal
//! convolution over the normed weighted values follows.

use super::abi::ngrams::{NgramArgs, SUMS};
use super::fold::{block_sum, share_sums};
use super::math::{sigmoid, silu};
use super::rounding::load8;
use super::simt::{
    await_predecessors, block, divide, fma, ld_global_f32, ld_global_f32x4, ld_global_u32, release_successor,
    shared_base, sqrt, st_global_f32, st_global_f32x4, thread, threads,
};

/// Where a root begins to be steep.
const LEAST: f32 = 1e-6;

/// The share of stream `block() % streams` of row `block() / streams` in the value. `CONVOLVES`: that part of the value, normalised, for
/// what follows; else nothing follows, and the stream gets its part here.
///
/// # Safety
/// The contract of `NgramMix`: buffers of the lengths in [`NgramArgs`], aligned to 16 bytes; whole warps, at most 16 of them, and
/// [`SHARE_BYTES`](super::abi::ngrams::SHARE_BYTES) of shared memory.
#[inline(always)]
pub(crate) unsafe fn ngram_share<const CONVOLVES: bool>(args: NgramArgs) {
    await_predecessors();
    release_successor();
    let NgramArgs { width, streams, .. } = args;
    let (row, stream) = divide(block(), streams);
    let part = u64::from(block()) * u64::from(width);
    let (key, x) = (args.key + 4 * part, args.x + 4 * part);
    let value = args.value + 4 * u64::from(row) * u64::from(width);
    let gain = args.gain.map(|gain| gain + 4 * u64::from(stream * width));
    let (mut sums, mut at) = ([0.0; SUMS as usize], 8 * thread());
    while at < width {
        let place = 4 * u64::from(at);
        let (keys, xs, values) = (load8(key + place), load8(x + place), load8(value + place));
        let (key_gains, gains) = (load8(gain[0] + place), load8(gain[1] + place));
        let mut i = 0;
        while i < 8 {
            sums[0] = fma(keys[i], keys[i], sums[0]);
            sums[1] = fma(xs[i], xs[i], sums[1]);
            sums[2] = fma(values[i], values[i], sums[2]);
            sums[3] = fma(keys[i] * key_gains[i], xs[i] * gains[i], sums[3]);
            i += 1;
        }
        at += 8 * threads();
    }
    let shared = shared_base();
    share_sums(sums, shared);
    let count = width as f32;
    let inverse = |sum: f32, eps: f32| 1.0 / sqrt(sum / count + eps);
    let key = inverse(block_sum::<4>(shared, 0), args.eps[0]);
    let query = inverse(block_sum::<4>(shared, 1), args.eps[1]);
    let square = block_sum::<4>(shared, 2) / count;
    let fit = block_sum::<4>(shared, 3) * key * query / sqrt(count);
    let size = if fit < 0.0 { 0.0 - fit } else { fit };
    let root = sqrt(if size < LEAST { LEAST } else { size });
    // At 0 there is no sign.
    let signed = if fit == 0.0 {
        0.0
    } else if fit < 0.0 {
        0.0 - root
    } else {
        root
    };
    let share = sigmoid(signed);
    if !CONVOLVES {
        let mut at = 4 * thread();
        while at < width {
            let place = 4 * u64::from(at);
            let (mut out, values, mut i) = (ld_global_f32x4(x + place), ld_global_f32x4(value + place), 0);
            while i < 4 {
                out[i] = fma(share, values[i], out[i]);
                i += 1;
            }
            st_global_f32x4(x + place, out);
            at += 4 * threads();
        }
        return;
    }
    let factor = share / sqrt(fma(share * share, square, args.eps[2]));
    if thread() == 0 {
        st_global_f32(args.shares + 4 * u64::from(block()), share);
    }
    let mut at = 8 * thread();
    while at < width {
        let place = 4 * u64::from(at);
        let (mut out, gains, mut i) = (load8(value + place), load8(gain[2] + place), 0);
        while i < 8 {
            out[i] = out[i] * factor * gains[i];
            i += 1;
        }
        let [a, b, c, d, e, f, g, h] = out;
        st_global_f32x4(args.normed + 4 * part + place, [a, b, c, d]);
        st_global_f32x4(args.normed + 4 * part + place + 16, [e, f, g, h]);
        at += 8 * threads();
    }
}

/// A sequence's rows, and the state that it starts from.
#[derive(Clone, Copy)]
struct Sequence {
    first: u32,
    end: u32,
    /// Of the state, or 0: zeros.
    from: u64,
}

/// The sequence of a row.
#[inline(always)]
unsafe fn sequence(args: &NgramArgs, row: u32) -> Sequence {
    let index = ld_global_u32(args.sequence + 4 * u64::from(row)).min(args.sequences - 1);
    let starts = args.starts + 4 * u64::from(index);
    let (first, end) = (ld_global_u32(starts), ld_global_u32(starts + 4).min(args.rows));
    Sequence { first, end, from: state(args, ld_global_u32(args.from + 4 * u64::from(index))) }
}

/// Where slot `slot` is, or 0 if there is no such slot.
#[inline(always)]
fn state(args: &NgramArgs, slot: u32) -> u64 {
    let len = u64::from(args.kept()) * u64::from(args.streams * args.width);
    if slot < args.slots { args.states + 4 * u64::from(slot) * len } else { 0 }
}

/// Values `4 quad ..` of the row at place `place` of the state that `of` starts from and the rows after that, counted from its oldest row.
#[inline(always)]
unsafe fn values(args: &NgramArgs, of: Sequence, place: u32, quad: u32) -> [f32; 4] {
    let (row, at) = (4 * u64::from(args.streams * args.width), 16 * u64::from(quad));
    if place >= args.kept() {
        ld_global_f32x4(args.normed + u64::from(of.first + place - args.kept()) * row + at)
    } else if of.from != 0 {
        ld_global_f32x4(of.from + u64::from(place) * row + at)
    } else {
        [0.0; 4]
    }
}

/// Four values of a stream: the weighted value and the convolution, added.
///
/// # Safety
/// As [`ngram_share`], which has run; a thread for every four values of a row's streams.
#[inline(always)]
pub(crate) unsafe fn ngram_mix(args: NgramArgs) {
    await_predecessors();
    release_successor();
    let all = args.streams * args.width;
    let at = block() * threads() + thread();
    if at >= args.rows * (all / 4) {
        return;
    }
    let (row, quad) = divide(at, all / 4);
    let (stream, inside) = divide(4 * quad, args.width);
    let of = sequence(&args, row);
    let (mut sum, mut tap) = ([0.0; 4], 0);
    while tap < args.taps {
        // The row's own place is behind what is kept.
        let n = values(&args, of, row - of.first + args.dilation * tap, quad);
        let weights =
            ld_global_f32x4(args.conv + 4 * (u64::from(tap) * u64::from(all) + 4 * u64::from(quad)));
        let mut i = 0;
        while i < 4 {
            sum[i] = fma(weights[i], n[i], sum[i]);
            i += 1;
        }
        tap += 1;
    }
    let share = ld_global_f32(args.shares + 4 * u64::from(row * args.streams + stream));
    let value =
        ld_global_f32x4(args.value + 4 * (u64::from(row) * u64::from(args.width) + u64::from(inside)));
    let mut x = ld_global_f32x4(args.x + 16 * u64::from(at));
    let mut i = 0;
    while i < 4 {
        x[i] += fma(share, value[i], silu(sum[i]));
        i += 1;
    }
    st_global_f32x4(args.x + 16 * u64::from(at), x);
}

/// Four values of the states that are kept after a row.
///
/// The slot that a sequence starts from may be that of its last row, and the states after the first rows are partly what it
/// started from: the block of the last row writes them too, its own slot last and the oldest row first, and a thread has its values to
/// itself.
///
/// # Safety
/// As [`ngram_mix`], which has run; threads for the four values of a row's streams in blocks of their own.
#[inline(always)]
pub(crate) unsafe fn ngram_save(args: NgramArgs) {
    await_predecessors();
    release_successor();
    let quads = args.streams * args.width / 4;
    let (row, part) = divide(block(), divide(quads + threads() - 1, threads()).0);
    let quad = part * threads() + thread();
    if quad >= quads {
        return;
    }
    let of = sequence(&args, row);
    let last = of.end - 1;
    if row == last {
        let mut early = of.first;
        while early < last && early - of.first + 1 < args.kept() {
            save(&args, of, early, quad);
            early += 1;
        }
    } else if row - of.first + 1 < args.kept() {
        return;
    }
    save(&args, of, row, quad);
}

#[inline(always)]
unsafe fn save(args: &NgramArgs, of: Sequence, row: u32, quad: u32) {
    let to = state(args, ld_global_u32(args.saves + 4 * u64::from(row)));
    let bytes = 4 * u64::from(args.streams * args.width);
    let mut place = 0;
    while to != 0 && place < args.kept() {
        let kept = values(args, of, row - of.first + 1 + place, quad);
        st_global_f32x4(to + u64::from(place) * bytes + 16 * u64::from(quad), kept);
        place += 1;
    }
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::NgramArgs;

    crate::simt::bounds!(ngram_share, 512, 2);
    crate::simt::bounds!(ngram_add, 512, 2);
    crate::simt::bounds!(ngram_mix, 256, 4);
    crate::simt::bounds!(ngram_save, 256, 4);

    /// See [`ngram_share`](super::ngram_share).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ngram_share(args: NgramArgs) {
        super::ngram_share::<true>(args);
    }

    /// Without a convolution.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ngram_add(args: NgramArgs) {
        super::ngram_share::<false>(args);
    }

    /// See [`ngram_mix`](super::ngram_mix).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ngram_mix(args: NgramArgs) {
        super::ngram_mix(args);
    }

    /// See [`ngram_save`](super::ngram_save).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ngram_save(args: NgramArgs) {
        super::ngram_save(args);
    }
}
