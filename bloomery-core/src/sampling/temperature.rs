//! Temperature: fixed, or between two ends by the entropy of the distribution.

use super::candidates::Candidates;

/// Divides the logits; 0 or less keeps the best token alone. So does a temperature so small that a
/// quotient would overflow.
pub(super) fn fixed(c: &mut Candidates<'_>, temperature: f32) {
    if temperature == 1.0 {
        return;
    }
    let max = c.max();
    if temperature <= 0.0 || !(max / temperature).is_finite() {
        return c.keep_top(1);
    }
    // a quotient of -inf is as good as masked, but the list holds nothing at -inf
    let scale = |l: &mut f32| *l = if *l > f32::NEG_INFINITY { (*l / temperature).max(f32::MIN) } else { *l };
    match c.vocabulary_mut() {
        Some(logits) => logits.iter_mut().for_each(scale),
        None => c.list().iter_mut().for_each(|t| scale(&mut t.logit)),
    }
}

/// The temperature for this distribution: from `centre - range` (not below 0) where one token has all
/// the mass to `centre + range` where it is flat. Nothing happens to fewer than two candidates.
pub(super) fn dynamic(c: &mut Candidates<'_>, centre: f32, range: f32, exponent: f32) {
    let (entropy, count) = c.entropy();
    if count <= 1 {
        return;
    }
    let (low, high) = ((centre - range).max(0.0), centre + range);
    // rounding may leave a hair below 0, which powf would turn into NaN
    let normalized = (entropy / (count as f64).ln()).max(0.0) as f32;
    fixed(c, (low + (high - low) * normalized.powf(exponent)).clamp(f32::MIN, f32::MAX));
}
