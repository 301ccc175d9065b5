//! The samplers that drop candidates: top_n_sigma, typical_p, top_p, min_p, XTC. (top_k is
//! `Candidates::keep_top`.)

use super::candidates::{Candidate, Candidates, by_rank};
use super::math;

/// Keeps logits of at least the largest less `n` standard deviations.
pub(super) fn top_n_sigma(c: &mut Candidates<'_>, n: f32) {
    if c.len() <= 1 {
        return;
    }
    let floor = |logits: &[f32], max: f32| max - (f64::from(n) * math::mean_deviation(logits).1) as f32;
    let max = c.max();
    if let Some(logits) = c.vocabulary_mut() {
        let floor = floor(logits, max);
        for l in logits {
            *l = if *l < floor { f32::NEG_INFINITY } else { *l };
        }
        return;
    }
    let logits: Vec<f32> = c.list().iter().map(|c| c.logit).collect();
    let floor = floor(&logits, max);
    c.list().retain(|c| c.logit >= floor);
}

/// Keeps the best tokens whose probabilities reach `p`.
pub(super) fn top_p(c: &mut Candidates<'_>, p: f32, min_keep: usize) {
    let p = f64::from(p);
    c.keep_mass(|logit, max, _| max - logit, |mass, count| mass >= p && count >= min_keep);
}

/// Keeps tokens at least `p` times as probable as the best.
pub(super) fn min_p(c: &mut Candidates<'_>, p: f32, min_keep: usize) {
    let floor = c.max() + p.ln();
    c.keep_from(floor, min_keep);
}

/// Keeps tokens whose surprise is nearest to the entropy until their probabilities exceed `p`.
pub(super) fn typical_p(c: &mut Candidates<'_>, p: f32, min_keep: usize) {
    let entropy = c.entropy().0 as f32;
    let p = f64::from(p);
    c.keep_mass(
        |logit, max, ln_sum| (max - logit + ln_sum - entropy).abs(),
        |mass, count| mass > p && count >= min_keep,
    );
}

/// Drops all tokens of at least `threshold` probability but the least of them.
pub(super) fn xtc(c: &mut Candidates<'_>, threshold: f32, min_keep: usize) {
    let list = c.softmax();
    let good = list.iter().filter(|t| t.p >= threshold);
    let (count, least) = good.fold((0usize, None), |(n, least): (usize, Option<Candidate>), t| {
        (n + 1, Some(least.map_or(*t, |l| if by_rank(&l, t).is_lt() { *t } else { l })))
    });
    let Some(least) = least.filter(|_| count > 1 && list.len() - (count - 1) >= min_keep) else { return };
    list.retain(|t| t.p < threshold || t.id == least.id);
}
