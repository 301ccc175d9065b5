//! [`Lanes`] in two AVX registers: lanes 0..8 and 8..16.

use std::arch::x86_64::*;

use super::Lanes;

/// Two registers; a value exists only where AVX2, FMA and F16C are available.
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256, __m256);

impl Lanes for Avx2 {
    const TILE: usize = 4;
    const WIDE: usize = 1;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller vouches for AVX2.
        unsafe { Self(_mm256_set1_ps(x), _mm256_set1_ps(x)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for AVX2 and 16 values.
        unsafe { Self(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: the caller vouches for F16C and 16 values.
        unsafe {
            Self(
                _mm256_cvtph_ps(_mm_loadu_si128(from.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(from.add(8).cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: the caller vouches for AVX2 and 16 values.
        unsafe {
            let all = _mm_loadu_si128(from.cast());
            Self(
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(all)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(all, all))),
            )
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for 16 values.
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.add(8), self.1);
        }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        // SAFETY: the caller vouches for 16 values.
        unsafe {
            _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0));
            _mm_storeu_si128(to.add(8).cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.1));
        }
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: a value of this type proves AVX2 and FMA.
        unsafe { Self(_mm256_add_ps(self.0, b.0), _mm256_add_ps(self.1, b.1)) }
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: a value of this type proves AVX2 and FMA.
        unsafe { Self(_mm256_sub_ps(self.0, b.0), _mm256_sub_ps(self.1, b.1)) }
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: a value of this type proves AVX2 and FMA.
        unsafe { Self(_mm256_mul_ps(self.0, b.0), _mm256_mul_ps(self.1, b.1)) }
    }

    #[inline(always)]
    fn div(self, b: Self) -> Self {
        // SAFETY: a value of this type proves AVX2 and FMA.
        unsafe { Self(_mm256_div_ps(self.0, b.0), _mm256_div_ps(self.1, b.1)) }
    }

    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a value of this type proves AVX2 and FMA.
        unsafe { Self(_mm256_fmadd_ps(self.0, b.0, c.0), _mm256_fmadd_ps(self.1, b.1, c.1)) }
    }

    #[inline(always)]
    fn max(self, b: Self) -> Self {
        // SAFETY: a value of this type proves AVX2 and FMA.
        unsafe { Self(_mm256_max_ps(self.0, b.0), _mm256_max_ps(self.1, b.1)) }
    }

    #[inline(always)]
    fn if_less(self, b: Self, yes: Self, no: Self) -> Self {
        // SAFETY: a value of this type proves AVX2 and FMA.
        unsafe {
            Self(
                _mm256_blendv_ps(no.0, yes.0, _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, b.0)),
                _mm256_blendv_ps(no.1, yes.1, _mm256_cmp_ps::<_CMP_LT_OQ>(self.1, b.1)),
            )
        }
    }

    #[inline(always)]
    fn nan_of(self, x: Self) -> Self {
        // SAFETY: a value of this type proves AVX2 and FMA.
        unsafe {
            let nan = _mm256_set1_ps(f32::NAN);
            Self(
                _mm256_blendv_ps(self.0, nan, _mm256_cmp_ps::<_CMP_UNORD_Q>(x.0, x.0)),
                _mm256_blendv_ps(self.1, nan, _mm256_cmp_ps::<_CMP_UNORD_Q>(x.1, x.1)),
            )
        }
    }

    #[inline(always)]
    fn add_exponent(self, n: Self) -> Self {
        // SAFETY: a value of this type proves AVX2 and FMA.
        unsafe {
            let low = _mm256_slli_epi32::<23>(_mm256_castps_si256(n.0));
            let high = _mm256_slli_epi32::<23>(_mm256_castps_si256(n.1));
            Self(
                _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(self.0), low)),
                _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(self.1), high)),
            )
        }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: a value of this type proves AVX2 and FMA.
        unsafe {
            let eight = _mm256_add_ps(self.0, self.1);
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    fn sums<const R: usize>(all: [[Self; R]; 2]) -> [[f32; R]; 2] {
        let mut sums = [[0.0; R]; 2];
        if R != 2 {
            for (sums, all) in sums.iter_mut().zip(all) {
                for (sum, one) in sums.iter_mut().zip(all) {
                    *sum = one.sum();
                }
            }
            return sums;
        }
        // Every step of the tree for as many vectors at once as fit.
        let mut lanes = [0.0; 8];
        // SAFETY: values of this type prove AVX2; the array has 8 values.
        unsafe {
            let mut fours = [_mm256_setzero_ps(); 2];
            for (four, all) in fours.iter_mut().zip(&all) {
                let a = _mm256_add_ps(all[0].0, all[0].1);
                let b = _mm256_add_ps(all[1].0, all[1].1);
                let (low, high) =
                    (_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b));
                *four = _mm256_add_ps(low, high);
            }
            let [a, b] = fours;
            let two = _mm256_add_ps(_mm256_shuffle_ps::<0x44>(a, b), _mm256_shuffle_ps::<0xee>(a, b));
            let one = _mm256_add_ps(two, _mm256_permute_ps::<0xb1>(two));
            _mm256_storeu_ps(lanes.as_mut_ptr(), one);
        }
        for (which, sums) in sums.iter_mut().enumerate() {
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = lanes[4 * r + 2 * which];
            }
        }
        sums
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        // SAFETY: a value of this type proves AVX2 and FMA.
        unsafe {
            let eight = _mm256_max_ps(self.0, self.1);
            let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }
}
