//! From logits to scores, and the largest of them.

use super::{RouterGroups, RouterScore, RouterSpec};
use crate::cpu::lanes::{Kernel, LANES, Lanes};
use crate::cpu::math::{exp, exp_one, gated};

/// Above it `ln(1 + e^x)` is `x` to the last bit.
const LINEAR: f32 = 20.0;

/// `sqrt(ln(1 + e^x))`.
fn sqrt_softplus(x: f32) -> f32 {
    if x > LINEAR { x.sqrt() } else { exp_one(x).ln_1p().sqrt() }
}

/// What a NaN counts as.
fn key(score: f32) -> f32 {
    if score.is_nan() { f32::NEG_INFINITY } else { score }
}

/// The largest scores, descending; of equal ones the lower index first.
pub(super) fn select(scores: &[f32], chosen: &mut [u32]) {
    let key = |expert: usize| key(scores[expert]);
    // An insertion sort of the best so far: few experts beat the last of them.
    let mut held = 0;
    for expert in 0..scores.len() {
        let mut place = held;
        while place > 0 && key(expert) > key(chosen[place - 1] as usize) {
            place -= 1;
        }
        if place < chosen.len() {
            held = (held + 1).min(chosen.len());
            chosen[place..held].rotate_right(1);
            chosen[place] = expert as u32;
        }
    }
}

/// Makes the scores of all groups minus infinity but the best.
pub(super) fn open_groups(scores: &mut [f32], groups: RouterGroups, score: RouterScore) {
    let size = scores.len() / groups.count;
    let value = |group: &[f32]| {
        let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        for score in group.iter().map(|&score| key(score)) {
            if score > first {
                (first, second) = (score, first);
            } else if score > second {
                second = score;
            }
        }
        if score == RouterScore::Softmax { first } else { first + second }
    };
    let values: Vec<f32> = scores.chunks_exact(size).map(value).collect();
    let mut open = vec![0; groups.used];
    select(&values, &mut open);
    for (group, scores) in scores.chunks_exact_mut(size).enumerate() {
        if !open.contains(&(group as u32)) {
            scores.fill(f32::NEG_INFINITY);
        }
    }
}

/// Makes scores of the logits of one row, for softmax before they are divided by their sum, which is returned (1 for others).
pub(super) struct Weigh<'a> {
    pub(super) spec: &'a RouterSpec,
    pub(super) logits: &'a mut [f32],
}

impl Kernel for Weigh<'_> {
    type Output = f32;
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) -> f32 {
        if self.spec.score == RouterScore::SqrtSoftplus {
            self.logits.iter_mut().for_each(|logit| *logit = sqrt_softplus(*logit));
            return 1.0;
        }
        let sigmoid = self.spec.score == RouterScore::Sigmoid;
        let most = self
            .logits
            .iter()
            .fold(f32::NEG_INFINITY, |most, &logit| if logit > most { logit } else { most });
        // SAFETY: chunks and arrays of 16 values; the instruction set is the caller's promise.
        unsafe {
            let (one, shift, mut total) = (V::splat(1.0), V::splat(most), V::splat(0.0));
            let (vectors, rest) = self.logits.as_chunks_mut::<LANES>();
            let mut tail = [f32::NEG_INFINITY; LANES];
            tail[..rest.len()].copy_from_slice(rest);
            for vector in vectors.iter_mut().chain([&mut tail]) {
                let logit = V::load(vector.as_ptr());
                let score = if sigmoid { gated(one, logit) } else { exp(logit.sub(shift)) };
                score.store(vector.as_mut_ptr());
                total = total.add(score);
            }
            rest.copy_from_slice(&tail[..rest.len()]);
            if sigmoid { 1.0 } else { total.sum() }
        }
    }
}
