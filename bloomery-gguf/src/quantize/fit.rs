//! The search for the scale of one run of values.

use crate::blocks::{F16, f16_to_f32, f32_to_f16};

/// The nearest integer, ties to even, for magnitudes below 2^22. (`f32::round` is a library call on baseline x86-64.)
#[inline(always)]
pub(super) fn nearest(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 * 2^23: its neighbours are one apart
    (x + SHIFT) - SHIFT
}

/// A block's half-precision scale. Where halves are coarse (below 2^-14) the next one up, not the nearest: too small a
/// unit would put the largest integer scale out of reach.
pub(super) fn unit(value: f32) -> F16 {
    // A fit may lie a little outside the values, and so outside the range that was checked.
    let value = value.clamp(-65504.0, 65504.0);
    let bits = f32_to_f16(value);
    let coarse = value.abs() < 1.0 / 16384.0;
    let up = coarse && f16_to_f32(bits).abs() < value.abs();
    F16((bits + u16::from(up)).to_le_bytes())
}

/// How much an error counts, value by value: more at large values, but never nothing.
pub(super) fn weights<const N: usize>(x: &[f32; N]) -> [f32; N] {
    let rms = (x.iter().map(|x| x * x).sum::<f32>() / N as f32).sqrt();
    x.map(|x| rms + x.abs())
}

/// `sum w (scale q - min - x)^2` when each q is the best integer of `low..=high`.
pub(super) fn error<const N: usize>(
    x: &[f32; N],
    w: &[f32; N],
    (scale, min): (f32, f32),
    (low, high): (f32, f32),
) -> f32 {
    let inverse = inverse(scale);
    let mut sum = 0.0;
    for (x, w) in x.iter().zip(w) {
        let q = nearest(((x + min) * inverse).clamp(low, high));
        let difference = scale * q - min - x;
        sum += w * difference * difference;
    }
    sum
}

/// `1 / scale`, 0 for a scale of 0 (and for those too small to have a reciprocal).
pub(super) fn inverse(scale: f32) -> f32 {
    Some(1.0 / scale).filter(|inverse| inverse.is_finite()).unwrap_or(0.0)
}

/// Scale and minimum for `x = scale * q - min` with q in `0..=top` and `min >= 0`.
pub(super) fn scale_min<const N: usize>(x: &[f32; N], w: &[f32; N], top: f32) -> (f32, f32) {
    let low = x.iter().fold(0.0, |low: f32, x| low.min(*x));
    let high = x.iter().fold(f32::NEG_INFINITY, |high: f32, x| high.max(*x));
    if high <= low {
        return (0.0, low.abs());
    }
    let plain = ((high - low) / top, -low);
    let mut best = (error(x, w, plain, (0.0, top)), plain);
    // Ranges that leave room, and ranges that cut the extremes off. The error of Gaussian rows is 7.28 % without the
    // search, 7.06 % with it, 7.04 % with four times as many guesses.
    for step in -6..=4 {
        let mut guess = ((high - low) / (top + 0.25 * step as f32), -low);
        // Integers for the guess, then the best guess for the integers.
        for _ in 0..2 {
            let Some(next) = refit_scale_min(x, w, guess, top) else { break };
            guess = next;
            let error = error(x, w, guess, (0.0, top));
            if error < best.0 {
                best = (error, guess);
            }
        }
    }
    best.1
}

/// The weighted least squares scale and minimum for the integers that a guess leads to.
fn refit_scale_min<const N: usize>(
    x: &[f32; N],
    w: &[f32; N],
    (scale, min): (f32, f32),
    top: f32,
) -> Option<(f32, f32)> {
    let inverse = inverse(scale);
    let (mut sw, mut swq, mut swqq, mut swx, mut swqx) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, w) in x.iter().zip(w) {
        let q = nearest(((x + min) * inverse).clamp(0.0, top));
        sw += w;
        swq += w * q;
        swqq += w * q * q;
        swx += w * x;
        swqx += w * q * x;
    }
    let determinant = sw * swqq - swq * swq;
    if determinant <= 0.0 {
        return None;
    }
    let (scale, min) = ((sw * swqx - swq * swx) / determinant, (swq * swqx - swqq * swx) / determinant);
    // A negative minimum cannot be stored: then the best line through the origin.
    let (scale, min) = if min < 0.0 { (swqx / swqq, 0.0) } else { (scale, min) };
    (scale > 0.0).then_some((scale, min))
}

/// Scale for `x = scale * q` with q in `-half..half`; negative where the largest magnitude is positive, since the
/// integers reach one further down than up.
pub(super) fn scale<const N: usize>(x: &[f32; N], w: &[f32; N], half: f32) -> f32 {
    let peak = x.iter().fold(0.0, |peak: f32, x| if x.abs() > peak.abs() { *x } else { peak });
    let range = (-half, half - 1.0);
    let mut best = (f32::INFINITY, 0.0);
    if peak == 0.0 {
        return best.1;
    }
    // Gaussian rows: 1.78 % with guesses within 0.5 of `half`, 1.67 % with these.
    for step in -12..=4 {
        let mut guess = -peak / (half + 0.5 * step as f32);
        for _ in 0..2 {
            let inverse = inverse(guess);
            let (mut swqq, mut swqx) = (0.0, 0.0);
            for (x, w) in x.iter().zip(w) {
                let q = nearest((x * inverse).clamp(range.0, range.1));
                swqq += w * q * q;
                swqx += w * q * x;
            }
            if swqq > 0.0 {
                guess = swqx / swqq;
            }
            let error = error(x, w, (guess, 0.0), range);
            if error < best.0 {
                best = (error, guess);
            }
        }
    }
    best.1
}
