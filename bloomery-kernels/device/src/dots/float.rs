//! F32, F16, BF16: a unit is 8 values, multiplied with floats.

use super::super::activations::Layout;
use super::super::simt::{fma, half, ld_shared_u32x4};
use super::Format;

/// 4 bytes a value.
pub(crate) struct F32;
/// IEEE half precision.
pub(crate) struct F16;
/// The upper half of an `f32`.
pub(crate) struct BF16;

#[inline(always)]
unsafe fn add<const R: usize, const T: usize>(
    weights: &[[f32; 8]; R],
    ux: u32,
    layout: Layout,
    x: &[u32; T],
    acc: &mut [[f32; T]; R],
) {
    let mut t = 0;
    while t < T {
        let (low, high) = (layout.piece(x[t], 0, ux), layout.piece(x[t], 1, ux));
        let x = [low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]];
        let mut r = 0;
        while r < R {
            let mut i = 0;
            while i < 8 {
                acc[r][t] = fma(weights[r][i], f32::from_bits(x[i]), acc[r][t]);
                i += 1;
            }
            r += 1;
        }
        t += 1;
    }
}

macro_rules! float {
    ($name:ident, $bytes:literal, $values:expr) => {
        impl Format for $name {
            #[inline(always)]
            unsafe fn add<const R: usize, const T: usize>(
                w: &[u32; R],
                u: u32,
                ux: u32,
                layout: Layout,
                x: &[u32; T],
                acc: &mut [[f32; T]; R],
            ) {
                let mut weights = [[0.0; 8]; R];
                let mut r = 0;
                while r < R {
                    weights[r] = $values(w[r] + $bytes * u);
                    r += 1;
                }
                add(&weights, ux, layout, x, acc);
            }
        }
    };
}

float!(F32, 32, f32s);
float!(F16, 16, f16s);
float!(BF16, 16, bf16s);

#[inline(always)]
unsafe fn f32s(at: u32) -> [f32; 8] {
    let (a, b) = (ld_shared_u32x4(at), ld_shared_u32x4(at + 16));
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]].map(f32::from_bits)
}

#[inline(always)]
unsafe fn f16s(at: u32) -> [f32; 8] {
    let a = ld_shared_u32x4(at);
    let (low, high) = (|word: u32| half(word as u16), |word: u32| half((word >> 16) as u16));
    [low(a[0]), high(a[0]), low(a[1]), high(a[1]), low(a[2]), high(a[2]), low(a[3]), high(a[3])]
}

#[inline(always)]
unsafe fn bf16s(at: u32) -> [f32; 8] {
    let a = ld_shared_u32x4(at);
    let (low, high) =
        (|word: u32| f32::from_bits(word << 16), |word: u32| f32::from_bits(word & 0xffff_0000));
    [low(a[0]), high(a[0]), low(a[1]), high(a[1]), low(a[2]), high(a[2]), low(a[3]), high(a[3])]
}
