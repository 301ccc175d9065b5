//! Eight values in each lane of a warp: loaded, normalised, rounded to int8 as the CPU rounds them.

use super::simt::{ld_global_f32x4, round, shfl_xor, warp_max};

/// Eight neighbouring values in each lane, rounded.
pub(crate) struct Eight {
    pub(crate) words: [u32; 2],
    /// The scale of this lane's block.
    pub(crate) scale: f32,
    /// The sum of the rounded values of this lane and its neighbour.
    pub(crate) sum: i32,
}

/// The scale of a block and the factor that leads to its integers (0: all of them are 0), from the bits of its largest
/// magnitude.
#[inline(always)]
fn steps(top: u32) -> (f32, f32) {
    let amax = f32::from_bits(top);
    let inverse = 127.0 / amax;
    if top >= 0x7f80_0000 {
        (f32::NAN, 0.0)
    } else if inverse < f32::INFINITY {
        (amax / 127.0, inverse)
    } else {
        (0.0, 0.0)
    }
}

/// Rounds the warp's 256 values in one block, or in blocks of 32 if there are to be 8 scales.
///
/// # Safety
/// All lanes of the warp get here.
#[inline(always)]
pub(crate) unsafe fn round8(values: [f32; 8], scales: u32) -> Eight {
    let mut top = 0;
    let mut i = 0;
    while i < 8 {
        // Magnitudes order as integers do, with infinities and NaNs above every number.
        let bits = values[i].to_bits() & 0x7fff_ffff;
        top = if bits > top { bits } else { top };
        i += 1;
    }
    if scales == 1 {
        top = warp_max(top);
    } else {
        let other = shfl_xor(top, 1);
        top = if other > top { other } else { top };
        let other = shfl_xor(top, 2);
        top = if other > top { other } else { top };
    }
    let (scale, inverse) = steps(top);
    let (mut words, mut sum) = ([0_u32; 2], 0);
    let mut i = 0;
    while i < 8 {
        // With an inverse of 0 a value may be NaN or infinite: its product must not be looked at.
        let q = if inverse == 0.0 { 0 } else { round(values[i] * inverse) };
        sum += q;
        words[i / 4] |= (q as u32 & 0xff) << (8 * (i % 4));
        i += 1;
    }
    sum += shfl_xor(sum as u32, 1) as i32;
    Eight { words, scale, sum }
}

/// Eight floats of global memory.
///
/// # Safety
/// They are readable, aligned to 16 bytes.
#[inline(always)]
pub(crate) unsafe fn load8(at: u64) -> [f32; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (ld_global_f32x4(at), ld_global_f32x4(at + 16));
    [a, b, c, d, e, f, g, h]
}

/// `x * inverse * gain`, as the CPU's norm has it.
#[inline(always)]
pub(crate) fn scaled(values: [f32; 8], inverse: f32, gains: [f32; 8]) -> [f32; 8] {
    let (mut out, mut i) = ([0.0; 8], 0);
    while i < 8 {
        out[i] = values[i] * inverse * gains[i];
        i += 1;
    }
    out
}
