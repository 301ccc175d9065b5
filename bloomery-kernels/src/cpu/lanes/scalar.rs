//! The definition of [`Lanes`], in plain Rust.

use half::f16;

use super::{LANES, Lanes};

/// Sixteen values.
#[derive(Debug, Clone, Copy)]
pub(in crate::cpu) struct Scalar([f32; LANES]);

impl Scalar {
    #[inline(always)]
    fn zip(self, b: Self, op: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| op(self.0[i], b.0[i])))
    }
}

impl Lanes for Scalar {
    const TILE: usize = 8;
    const WIDE: usize = 1;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for 16 values.
        Self(unsafe { from.cast::<[f32; LANES]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: the caller vouches for 16 values.
        let bits = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        Self(bits.map(|bits| f16::from_bits(bits).to_f32()))
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: the caller vouches for 16 values.
        Self(unsafe { from.cast::<[i8; LANES]>().read() }.map(f32::from))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for 16 values.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        // SAFETY: the caller vouches for 16 values.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(self.0.map(|x| f16::from_f32(x).to_bits())) }
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.zip(b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.zip(b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.zip(b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, b: Self) -> Self {
        self.zip(b, |a, b| a / b)
    }

    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].mul_add(b.0[i], c.0[i])))
    }

    #[inline(always)]
    fn max(self, b: Self) -> Self {
        self.zip(b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn if_less(self, b: Self, yes: Self, no: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] < b.0[i] { yes.0[i] } else { no.0[i] }))
    }

    #[inline(always)]
    fn nan_of(self, x: Self) -> Self {
        self.zip(x, |a, x| if x.is_nan() { f32::NAN } else { a })
    }

    #[inline(always)]
    fn add_exponent(self, n: Self) -> Self {
        self.zip(n, |a, n| f32::from_bits(a.to_bits().wrapping_add(n.to_bits() << 23)))
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        let mut lanes = self.0;
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        lanes[0]
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        self.0.into_iter().fold(f32::NEG_INFINITY, |a, b| if a > b { a } else { b })
    }
}
