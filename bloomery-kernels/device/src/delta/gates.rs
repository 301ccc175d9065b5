//! Decay and step of a head's row.

use super::super::math::{exp, sigmoid};
use super::super::simt::fma;

/// 1/3, 1/5, ... 1/15.
const SERIES: [f32; 7] =
    [0.333_333_34, 0.2, 0.142_857_15, 0.111_111_11, 0.090_909_09, 0.076_923_08, 0.066_666_67];

/// `ln(1 + e^x)`; `x` above 20.
///
/// The decays of all rows multiply: they need every bit, so the logarithm is `2 atanh(y / (2 + y))`, whose series ends below 1e-8 for
/// `y = e^-|x|` up to 1.
#[inline(always)]
pub(super) fn softplus(x: f32) -> f32 {
    if x > 20.0 {
        return x;
    }
    let (y, above) = if x > 0.0 { (exp(0.0 - x), x) } else { (exp(x), 0.0) };
    let s = y / (2.0 + y);
    let square = s * s;
    let (mut sum, mut i) = (SERIES[6], 6);
    while i > 0 {
        i -= 1;
        sum = fma(sum, square, SERIES[i]);
    }
    let half = fma(s * square, sum, s);
    fma(2.0, half, above)
}

/// `e^g` with `g = bound sigmoid(-a (alpha + dt))`, of one channel.
#[inline(always)]
pub(super) fn channel_decay(bound: f32, a: f32, alpha: f32, dt: f32) -> f32 {
    exp(bound * sigmoid(-(a * (alpha + dt))))
}

/// `e^g` with `g = a softplus(alpha + dt)`.
#[inline(always)]
pub(super) fn decay(a: f32, alpha: f32, dt: f32) -> f32 {
    exp(a * softplus(alpha + dt))
}
