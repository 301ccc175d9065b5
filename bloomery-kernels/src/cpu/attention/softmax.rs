//! From the scores of a page to weights.

use super::Job;
use crate::cpu::kv::PAGE;
use crate::cpu::lanes::{LANES, Lanes};
use crate::cpu::math::{exp, exp_one, tanh};

/// 16-position blocks of a page.
const BLOCKS: usize = PAGE / LANES;

/// Lane numbers.
const LANE: [f32; LANES] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];

/// Turns one query's scores of a page into weights, updates `l` and `m` of its state (`[l: 16][m]`), and returns the
/// factor for what was summed before.
#[inline(always)]
pub(super) unsafe fn weights<V: Lanes>(
    job: &Job<'_>,
    row: &mut [f32],
    (from, to, bits): (usize, usize, u64),
    state: &mut [f32],
) -> f32 {
    if from >= to {
        row.fill(0.0);
        return 1.0;
    }
    // SAFETY: `row` has 64 values and `state` 32; the instruction set is the contract of `pages`.
    unsafe {
        let never = V::splat(f32::NEG_INFINITY);
        let (scale, lane) = (V::splat(job.spec.scale), V::load(LANE.as_ptr()));
        let mut scores = [never; BLOCKS];
        let mut most = never;
        for (block, score) in scores.iter_mut().enumerate() {
            let mut value = V::load(row.as_ptr().add(block * LANES)).mul(scale);
            if let Some(cap) = job.spec.softcap {
                value = tanh(value.div(V::splat(cap))).mul(V::splat(cap));
            }
            if from > 0 || to < PAGE {
                let shift = |limit: usize| V::splat(limit as f32 - (block * LANES) as f32);
                value = lane.if_less(shift(from), never, value);
                value = lane.if_less(shift(to), value, never);
            }
            if bits != u64::MAX {
                let flags: [f32; LANES] = std::array::from_fn(|i| (bits >> (block * LANES + i) & 1) as f32);
                value = V::load(flags.as_ptr()).if_less(V::splat(0.5), never, value);
            }
            *score = value;
            most = most.max(value);
        }
        let before = state[LANES];
        let most = most.largest();
        let most = if before > most { before } else { most };
        let fade = exp_one(before - most);
        let mut weights = [never; BLOCKS];
        for (block, weight) in weights.iter_mut().enumerate() {
            *weight = exp(scores[block].sub(V::splat(most)));
            weight.store(row.as_mut_ptr().add(block * LANES));
        }
        let sum = weights[0].add(weights[1]).add(weights[2].add(weights[3]));
        V::load(state.as_ptr()).fma(V::splat(fade), sum).store(state.as_mut_ptr());
        state[LANES] = most;
        fade
    }
}
