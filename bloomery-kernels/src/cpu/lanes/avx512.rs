//! [`Lanes`] in one AVX-512 register.

use std::arch::x86_64::*;

use super::Lanes;

/// One register; a value exists only where AVX-512 F, BW, VL and DQ are available.
#[derive(Clone, Copy)]
pub(super) struct Avx512(__m512);

impl Lanes for Avx512 {
    const TILE: usize = 8;
    const WIDE: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller vouches for AVX-512.
        Self(unsafe { _mm512_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for AVX-512 and 16 values.
        Self(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: the caller vouches for AVX-512 and 16 values.
        Self(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) })
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: the caller vouches for AVX-512 and 16 values.
        Self(unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for 16 values.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        // SAFETY: the caller vouches for 16 values.
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) }
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: a value of this type proves AVX-512.
        Self(unsafe { _mm512_add_ps(self.0, b.0) })
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: a value of this type proves AVX-512.
        Self(unsafe { _mm512_sub_ps(self.0, b.0) })
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: a value of this type proves AVX-512.
        Self(unsafe { _mm512_mul_ps(self.0, b.0) })
    }

    #[inline(always)]
    fn div(self, b: Self) -> Self {
        // SAFETY: a value of this type proves AVX-512.
        Self(unsafe { _mm512_div_ps(self.0, b.0) })
    }

    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a value of this type proves AVX-512.
        Self(unsafe { _mm512_fmadd_ps(self.0, b.0, c.0) })
    }

    #[inline(always)]
    fn max(self, b: Self) -> Self {
        // SAFETY: a value of this type proves AVX-512.
        Self(unsafe { _mm512_max_ps(self.0, b.0) })
    }

    #[inline(always)]
    fn if_less(self, b: Self, yes: Self, no: Self) -> Self {
        // SAFETY: a value of this type proves AVX-512.
        Self(unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, b.0), no.0, yes.0) })
    }

    #[inline(always)]
    fn nan_of(self, x: Self) -> Self {
        // SAFETY: a value of this type proves AVX-512.
        unsafe {
            let unordered = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x.0, x.0);
            Self(_mm512_mask_blend_ps(unordered, self.0, _mm512_set1_ps(f32::NAN)))
        }
    }

    #[inline(always)]
    fn add_exponent(self, n: Self) -> Self {
        // SAFETY: a value of this type proves AVX-512.
        unsafe {
            let shifted = _mm512_slli_epi32::<23>(_mm512_castps_si512(n.0));
            Self(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(self.0), shifted)))
        }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: a value of this type proves AVX-512.
        unsafe {
            let eight = _mm256_add_ps(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        // SAFETY: a value of this type proves AVX-512.
        unsafe {
            let eight = _mm256_max_ps(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
            let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }
}
