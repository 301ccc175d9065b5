//! Q6_K: scale of each 16 values by search, then its 8-bit integer.

use super::fit;
use crate::blocks::BlockQ6K;

/// 32 * 127 times the largest half-precision number.
pub(super) const LIMIT: f32 = 32.0 * 127.0 * 65504.0;

const RANGE: (f32, f32) = (-32.0, 31.0);

pub(super) fn quantize(x: &[f32; 256]) -> [u8; BlockQ6K::BYTES] {
    let (runs, _) = x.as_chunks::<16>();
    let (mut fits, mut weights) = ([0.0; 16], [[0.0; 16]; 16]);
    for ((fit, w), x) in fits.iter_mut().zip(&mut weights).zip(runs) {
        *w = fit::weights(x);
        *fit = fit::scale(x, w, -RANGE.0);
    }
    // The largest scale becomes -128: the integers reach one further down than up.
    let top = fits.iter().fold(0.0, |top: f32, fit| if fit.abs() > top.abs() { *fit } else { top });
    let d = fit::unit(top / -128.0 + 0.0); // + 0: a block of zeros has no sign

    let (mut scales, mut ql, mut qh) = ([0; 16], [[0; 32]; 4], [[0; 32]; 2]);
    for (k, x) in runs.iter().enumerate() {
        let scale = integer(x, &weights[k], fits[k], d.to_f32());
        scales[k] = scale as i8 as u8;
        let inverse = fit::inverse(d.to_f32() * scale);
        let (half, s, first) = (k / 8, k / 2 % 4, k % 2 * 16);
        for (l, x) in (first..).zip(x) {
            let q = (fit::nearest((x * inverse).clamp(RANGE.0, RANGE.1)) + 32.0) as u8;
            ql[2 * half + s % 2][l] |= (q & 15) << (4 * (s / 2));
            qh[half][l] |= (q >> 4) << (2 * s);
        }
    }

    let mut out = [0; BlockQ6K::BYTES];
    out[..128].copy_from_slice(ql.as_flattened());
    out[128..192].copy_from_slice(qh.as_flattened());
    out[192..208].copy_from_slice(&scales);
    out[208..].copy_from_slice(&d.0);
    out
}

/// The 8-bit scale of the least error: the rounding of the fit and its neighbours. (Beside an outlier that makes the unit
/// coarse, the rounding alone is often 0.)
fn integer(x: &[f32; 16], w: &[f32; 16], scale: f32, d: f32) -> f32 {
    let near = fit::nearest((scale * fit::inverse(d)).clamp(-128.0, 127.0));
    let mut best = (f32::INFINITY, 0.0);
    for scale in [near, near - 1.0, near + 1.0] {
        let error = fit::error(x, w, (d * scale, 0.0), RANGE);
        if (-128.0..=127.0).contains(&scale) && error < best.0 {
            best = (error, scale);
        }
    }
    best.1
}
