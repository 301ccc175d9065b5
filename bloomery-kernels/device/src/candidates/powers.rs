//! Logits as integers of the same order, and logarithms.

use super::super::simt::fma;

/// Larger for larger logits; a NaN is above all, the two zeros are equal, and no logit has the key 0.
#[inline(always)]
pub(super) fn key(logit: f32) -> u32 {
    let bits = logit.to_bits();
    let bits = if bits == 0x8000_0000 { 0 } else { bits };
    let key = if bits >> 31 == 0 { bits | 0x8000_0000 } else { !bits };
    if logit.is_nan() { u32::MAX } else { key }
}

/// The logit of a key.
#[inline(always)]
pub(super) fn logit(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 0 { !key } else { key & 0x7fff_ffff })
}

/// The natural logarithm of a number from 1 to the largest, to 2 ulp: the polynomial of the Cephes library.
#[inline(always)]
pub(super) fn ln(x: f32) -> f32 {
    /// Of the highest power first.
    const SERIES: [f32; 9] = [
        7.037_683_6e-2,
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        0.333_333_3,
    ];
    // x = 2^n * m with m from sqrt(1/2) to sqrt(2).
    let bits = x.to_bits();
    let n = bits.wrapping_sub(0x3f35_04f3) as i32 >> 23;
    let z = f32::from_bits(bits.wrapping_sub((n as u32) << 23)) - 1.0;
    let (mut sum, mut i) = (SERIES[0], 1);
    while i < SERIES.len() {
        sum = fma(sum, z, SERIES[i]);
        i += 1;
    }
    let n = n as f32;
    let small = fma(z * z, fma(sum, z, -0.5), n * -2.121_944_4e-4);
    let out = fma(n, 0.693_359_4, z + small);
    if x <= f32::MAX { out } else { x }
}
