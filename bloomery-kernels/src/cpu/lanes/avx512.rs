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
    fn sums<const R: usize>(all: [[Self; R]; 2]) -> [[f32; R]; 2] {
        let mut sums = [[0.0; R]; 2];
        if R != 4 {
            for (sums, all) in sums.iter_mut().zip(all) {
                for (sum, one) in sums.iter_mut().zip(all) {
                    *sum = one.sum();
                }
            }
            return sums;
        }
        // Every step of the tree for as many vectors at once as fit: 23 operations where one by one takes 64.
        let mut lanes = [0.0; 16];
        // SAFETY: values of this type prove AVX-512; the array has 16 values.
        unsafe {
            let mut fours = [_mm512_setzero_ps(); 2];
            for (four, all) in fours.iter_mut().zip(&all) {
                let eight = |a: __m512, b: __m512| {
                    let (low, high) =
                        (_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
                    _mm512_add_ps(low, high)
                };
                let (a, b) = (eight(all[0].0, all[1].0), eight(all[2].0, all[3].0));
                let (low, high) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
                *four = _mm512_add_ps(low, high);
            }
            let [a, b] = fours;
            let two = _mm512_add_ps(_mm512_shuffle_ps::<0x44>(a, b), _mm512_shuffle_ps::<0xee>(a, b));
            let one = _mm512_add_ps(two, _mm512_permute_ps::<0xb1>(two));
            _mm512_storeu_ps(lanes.as_mut_ptr(), one);
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
        // SAFETY: a value of this type proves AVX-512.
        unsafe {
            let eight = _mm256_max_ps(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
            let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }
}
