//! Weights of many rows as operands of the tensor cores.

use super::super::simt::half2;
use super::operands::scale;

/// Weights of two times two positions of two queries, as an operand.
#[inline(always)]
pub(super) fn halves(x: [f32; 4], y: [f32; 4]) -> [u32; 4] {
    [half2(x[0], x[1]), half2(x[2], x[3]), half2(y[0], y[1]), half2(y[2], y[3])]
}

/// Weights in f32 times the scales of their positions, as an operand.
#[inline(always)]
pub(super) fn scaled([x, y]: [[u32; 4]; 2], scales: [u32; 2], left: i32) -> [u32; 4] {
    let mut four = [0.0; 4];
    let mut i = 0;
    while i < 4 {
        // A scale that nobody wrote may be anything.
        four[i] = if (i as i32) < left { 256.0 * scale(scales, i) } else { 0.0 };
        i += 1;
    }
    let (x, y) = (x.map(f32::from_bits), y.map(f32::from_bits));
    halves(
        [x[0] * four[0], x[1] * four[1], x[2] * four[0], x[3] * four[1]],
        [y[0] * four[2], y[1] * four[3], y[2] * four[2], y[3] * four[3]],
    )
}
