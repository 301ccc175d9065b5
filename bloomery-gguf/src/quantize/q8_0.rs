//! Q8_0 as the `gguf` package writes it: scale `max / 127`, ties away from zero.

use crate::blocks::{BlockQ8_0, F16};

/// 127 times the largest half-precision number.
pub(super) const LIMIT: f32 = 127.0 * 65504.0;

pub(super) fn quantize(x: &[f32; 32]) -> [u8; BlockQ8_0::BYTES] {
    let d = x.iter().fold(0.0, |max: f32, x| max.max(x.abs())) / 127.0;
    // The reciprocal of a d below 2^-128 is infinite; such a d is 0 in half precision, and so are the values.
    let inverse = Some(1.0 / d).filter(|inverse| inverse.is_finite()).unwrap_or(0.0);
    let mut out = [0; BlockQ8_0::BYTES];
    let (scale, qs) = out.split_at_mut(2);
    scale.copy_from_slice(&F16::from_f32(d).0);
    for (q, x) in qs.iter_mut().zip(x) {
        *q = (x * inverse).round() as i8 as u8;
    }
    out
}
