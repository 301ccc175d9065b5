//! Q4_K: scale and minimum of each 32 values by search, then their 6-bit integers.

use super::fit;
use crate::blocks::{BlockQ4K, ScaleMins};

/// 63 times the largest half-precision number: what a block of one negative value can hold.
pub(super) const LIMIT: f32 = 63.0 * 65504.0;

const NIBBLE: (f32, f32) = (0.0, 15.0);

pub(super) fn quantize(x: &[f32; 256]) -> [u8; BlockQ4K::BYTES] {
    let (subs, _) = x.as_chunks::<32>();
    let (mut fits, mut weights) = ([(0.0, 0.0); 8], [[0.0; 32]; 8]);
    for ((fit, w), x) in fits.iter_mut().zip(&mut weights).zip(subs) {
        *w = fit::weights(x);
        *fit = fit::scale_min(x, w, NIBBLE.1);
    }
    let top = fits.iter().fold((0.0, 0.0), |top: (f32, f32), fit| (top.0.max(fit.0), top.1.max(fit.1)));
    let (d, dmin) = (fit::unit(top.0 / 63.0), fit::unit(top.1 / 63.0));

    let (mut scales, mut mins, mut qs) = ([0; 8], [0; 8], [[0; 32]; 4]);
    for (j, x) in subs.iter().enumerate() {
        let (scale, min) = integers(x, &weights[j], fits[j], (d.to_f32(), dmin.to_f32()));
        (scales[j], mins[j]) = (scale as u8, min as u8);
        let (scale, min) = (d.to_f32() * scale, dmin.to_f32() * min);
        let inverse = fit::inverse(scale);
        for (byte, x) in qs[j / 2].iter_mut().zip(x) {
            let q = fit::nearest(((x + min) * inverse).clamp(NIBBLE.0, NIBBLE.1));
            *byte |= (q as u8) << (4 * (j % 2));
        }
    }

    let mut out = [0; BlockQ4K::BYTES];
    out[..2].copy_from_slice(&d.0);
    out[2..4].copy_from_slice(&dmin.0);
    out[4..16].copy_from_slice(&ScaleMins::pack(&scales, &mins).0);
    out[16..].copy_from_slice(qs.as_flattened());
    out
}

/// The 6-bit scale and minimum of the least error: the roundings of the fit and their neighbours. (Gaussian rows:
/// 7.06 % instead of 7.14 % with the roundings alone.)
fn integers(x: &[f32; 32], w: &[f32; 32], (scale, min): (f32, f32), (d, dmin): (f32, f32)) -> (f32, f32) {
    let near = |value: f32, unit: f32| fit::nearest((value * fit::inverse(unit)).clamp(0.0, 63.0));
    let (scale, min) = (near(scale, d), near(min, dmin));
    let mut best = (f32::INFINITY, (0.0, 0.0));
    for scale in [scale, scale - 1.0, scale + 1.0] {
        for min in [min, min - 1.0, min + 1.0] {
            if (0.0..=63.0).contains(&scale) && (0.0..=63.0).contains(&min) {
                let error = fit::error(x, w, (d * scale, dmin * min), NIBBLE);
                if error < best.0 {
                    best = (error, (scale, min));
                }
            }
        }
    }
    best.1
}
