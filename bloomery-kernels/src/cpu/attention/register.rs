//! The two products of attention, in register tiles of queries by 16 or 32 positions or dimensions.
//!
//! Contract of all functions: as of `chunk::pages`.

use super::chunk::PADDING;
use super::source::Source;
use super::state;
use crate::cpu::kv::PAGE;
use crate::cpu::lanes::{LANES, Lanes, prefetch};

/// Scores `[query][position]` of a register tile of queries, for the 16-position blocks `from..to` or a few more.
#[inline(always)]
pub(super) unsafe fn all_dots<V: Lanes, S: Source>(
    queries: *const f32,
    (keys, next): (*const u8, *const u8),
    dim: usize,
    from: usize,
    to: usize,
    scores: &mut [f32; PADDING * PAGE],
) {
    for block in (from / V::WIDE * V::WIDE..to).step_by(V::WIDE) {
        // SAFETY: as in `pages`; PAGE is a multiple of the tile's positions.
        unsafe {
            if V::TILE == 8 && V::WIDE == 2 {
                dots::<V, S, 8, 2>(queries, (keys, next), dim, block, scores);
            } else if V::TILE == 8 {
                dots::<V, S, 8, 1>(queries, (keys, next), dim, block, scores);
            } else {
                dots::<V, S, 4, 1>(queries, (keys, next), dim, block, scores);
            }
        }
    }
}

/// Scores of `Q` queries with `16 W` keys.
#[inline(always)]
unsafe fn dots<V: Lanes, S: Source, const Q: usize, const W: usize>(
    queries: *const f32,
    (keys, next): (*const u8, *const u8),
    dim: usize,
    block: usize,
    scores: &mut [f32; PADDING * PAGE],
) {
    // SAFETY: as in `pages`.
    unsafe {
        let mut sums = [[V::splat(0.0); W]; Q];
        for group in 0..dim / S::GROUP {
            let mut scales = [V::splat(1.0); W];
            for (w, scales) in scales.iter_mut().enumerate() {
                *scales = S::key_scales::<V>(keys, dim, block + w, group);
            }
            for d in group * S::GROUP..(group + 1) * S::GROUP {
                let mut key = [V::splat(0.0); W];
                for (w, key) in key.iter_mut().enumerate() {
                    *key = S::key(keys, dim, block + w, d, scales[w]);
                    if S::AHEAD {
                        prefetch(next.wrapping_add(((block + w) * dim + d) * LANES * S::BYTES));
                    }
                }
                for (j, sums) in sums.iter_mut().enumerate() {
                    let query = V::splat(*queries.add(d * Q + j));
                    for (sum, key) in sums.iter_mut().zip(key) {
                        *sum = query.fma(key, *sum);
                    }
                }
            }
        }
        for (j, sums) in sums.into_iter().enumerate() {
            for (w, sum) in sums.into_iter().enumerate() {
                sum.store(scores.as_mut_ptr().add(j * PAGE + (block + w) * LANES));
            }
        }
    }
}

/// `o = o * fade + sum over positions low..high of weight * value`, for a register tile of queries.
#[inline(always)]
pub(super) unsafe fn all_sums<V: Lanes, S: Source>(
    weights: &[f32; PADDING * PAGE],
    fade: &[f32; PADDING],
    (values, next): (*const u8, *const u8),
    dim: usize,
    low: usize,
    high: usize,
    state: &mut [f32],
) {
    let (mut d, state) = (0, state.as_mut_ptr());
    // SAFETY: as in `pages`; `d` stays below `dim`, a multiple of 16.
    unsafe {
        if V::WIDE == 2 {
            while d + 2 * LANES <= dim {
                sums::<V, S, 8, 2>(weights, fade, (values, next), dim, d, low, high, state);
                d += 2 * LANES;
            }
        }
        while d < dim {
            if V::TILE == 8 {
                sums::<V, S, 8, 1>(weights, fade, (values, next), dim, d, low, high, state);
            } else {
                sums::<V, S, 4, 1>(weights, fade, (values, next), dim, d, low, high, state);
            }
            d += LANES;
        }
    }
}

/// The part of [`all_sums`] for `Q` queries and the dimensions `d..d + 16 W`.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the inner loop of one caller, which inlines it")]
unsafe fn sums<V: Lanes, S: Source, const Q: usize, const W: usize>(
    weights: &[f32; PADDING * PAGE],
    fade: &[f32; PADDING],
    (values, next): (*const u8, *const u8),
    dim: usize,
    d: usize,
    low: usize,
    high: usize,
    state: *mut f32,
) {
    let mut scales = [1.0_f32; PAGE];
    // SAFETY: as in `pages`; `j < Q <= PADDING` queries have their states in a row.
    unsafe {
        if S::SCALED {
            S::value_scales::<V>(values, dim, d, &mut scales);
        }
        let mut sums = [[V::splat(0.0); W]; Q];
        for (j, sums) in sums.iter_mut().enumerate() {
            for (w, sum) in sums.iter_mut().enumerate() {
                let o = state.add(j * state::stride(dim) + d + w * LANES);
                *sum = V::load(o).mul(V::splat(fade[j]));
            }
        }
        for position in low..high {
            let scale = if S::SCALED { *scales.get_unchecked(position) } else { 1.0 };
            if S::AHEAD {
                prefetch(next.wrapping_add((position * dim + d) * S::BYTES));
            }
            let mut value = [V::splat(0.0); W];
            for (w, value) in value.iter_mut().enumerate() {
                *value = S::value(values, dim, position, d + w * LANES, scale);
            }
            for (j, sums) in sums.iter_mut().enumerate() {
                let weight = V::splat(*weights.get_unchecked(j * PAGE + position));
                for (sum, value) in sums.iter_mut().zip(value) {
                    *sum = weight.fma(value, *sum);
                }
            }
        }
        for (j, sums) in sums.into_iter().enumerate() {
            for (w, sum) in sums.into_iter().enumerate() {
                sum.store(state.add(j * state::stride(dim) + d + w * LANES));
            }
        }
    }
}
