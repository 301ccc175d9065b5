//! Unpacking for AVX-512: the formats of most files by hand, the others through their definition.
//!
//! Every format ends in the same way: 64 small integers `q` and a 16-bit scale for each become the two bytes of
//! `scale * q + offset`. The even and the odd bytes are multiplied apart, in 16-bit words.

use std::arch::x86_64::*;

use bloomery_gguf::blocks::{BlockQ4K, BlockQ5K, BlockQ6K, ScaleMins, SuperBlock};

use super::super::Matrix;
use super::PANEL;
use super::panel::{Layout, Panel};

/// Rows of a panel and the place of one of them.
struct Place<'a> {
    panel: &'a mut Panel,
    m: usize,
}

/// Unpacks block `block` of the rows `first..first + count` of `weight`, `count <= 32`.
///
/// # Safety
/// The processor has the AVX-512 subsets of [`Isa::Avx512`](super::super::Isa).
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn q4_k(
    weight: &Matrix<'_>,
    first: usize,
    count: usize,
    block: usize,
    _: Layout,
    panel: &mut Panel,
) {
    for m in 0..count.min(PANEL) {
        let Some(from) = read::<{ BlockQ4K::BYTES }>(weight, first + m, block) else { return };
        let mut place = Place { panel, m };
        let scales = place.scale_mins(from);
        for step in 0..4 {
            let q = nibbles(from, 16 + 32 * step);
            place.split(step, q, words_of_bytes(scales, step), 0);
        }
    }
}

/// As [`q4_k`].
///
/// # Safety
/// As [`q4_k`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn q5_k(
    weight: &Matrix<'_>,
    first: usize,
    count: usize,
    block: usize,
    _: Layout,
    panel: &mut Panel,
) {
    for m in 0..count.min(PANEL) {
        let Some(from) = read::<{ BlockQ5K::BYTES }>(weight, first + m, block) else { return };
        let mut place = Place { panel, m };
        let scales = place.scale_mins(from);
        let high = twice(from, 16);
        for step in 0..4 {
            // Bits 2 step (first 32 values) and 2 step + 1, brought to bit 4.
            let shift = _mm512_add_epi16(halves(0, 1), _mm512_set1_epi16(2 * step as i16));
            let high = _mm512_and_si512(_mm512_srlv_epi16(high, shift), _mm512_set1_epi8(1));
            let q = _mm512_or_si512(nibbles(from, 48 + 32 * step), _mm512_slli_epi16::<4>(high));
            place.split(step, q, words_of_bytes(scales, step), 0);
        }
    }
}

/// As [`q4_k`].
///
/// # Safety
/// As [`q4_k`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn q6_k(
    weight: &Matrix<'_>,
    first: usize,
    count: usize,
    block: usize,
    layout: Layout,
    panel: &mut Panel,
) {
    for m in 0..count.min(PANEL) {
        let Some(from) = read::<{ BlockQ6K::BYTES }>(weight, first + m, block) else { return };
        let mut place = Place { panel, m };
        let (low_mask, high_mask) = (_mm512_set1_epi8(15), _mm512_set1_epi8(3));
        // SAFETY: 16 bytes at 192 of 210.
        let scales = unsafe { _mm256_cvtepi8_epi16(_mm_loadu_si128(from.as_ptr().add(192).cast())) };
        for half in 0..2 {
            // SAFETY: 64 bytes at 64 * half of 210.
            let low = unsafe { _mm512_loadu_si512(from.as_ptr().add(64 * half).cast()) };
            let high = twice(from, 128 + 32 * half);
            for second in 0..2 {
                let low = if second == 0 { low } else { _mm512_srli_epi16::<4>(low) };
                let shift = if second == 0 { halves(0, 2) } else { halves(4, 6) };
                let high = _mm512_and_si512(_mm512_srlv_epi16(high, shift), high_mask);
                let q = _mm512_or_si512(_mm512_and_si512(low, low_mask), _mm512_slli_epi16::<4>(high));
                let q = _mm512_sub_epi8(q, _mm512_set1_epi8(32));
                let step = 2 * half + second;
                place.split(step, q, words_of_words(scales, step), layout.offset);
            }
        }
        place.panel.d[m] = half_at(from, 208);
    }
}

/// As [`q4_k`], for any format, from its definition.
///
/// # Safety
/// As [`q4_k`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn any<B: SuperBlock>(
    weight: &Matrix<'_>,
    first: usize,
    count: usize,
    block: usize,
    layout: Layout,
    panel: &mut Panel,
) {
    super::panel::unpack::<B>(weight, first, count, block, layout, panel);
}

/// The bytes of a block.
#[inline]
fn read<'a, const BYTES: usize>(weight: &Matrix<'a>, row: usize, block: usize) -> Option<&'a [u8; BYTES]> {
    weight.row(row).get(block * BYTES..)?.first_chunk()
}

impl Place<'_> {
    /// Unpacks the head that Q4_K and Q5_K share: scale, scale of the minimums, eight scales and minimums. Returns the scales
    /// in the bytes of a word.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    #[inline]
    fn scale_mins<const BYTES: usize>(&mut self, from: &[u8; BYTES]) -> u64 {
        const { assert!(BYTES >= 16 && size_of::<ScaleMins>() == 12) };
        let word = |at: usize| u32::from_le_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]]);
        let (a, b, c) = (word(4), word(8), word(12));
        // Four bytes at a time, the packing that `ScaleMins` describes.
        let (six, four, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x0303_0303);
        let scales = [a & six, (c & four) | ((a >> 6) & two) << 4];
        let mins = [b & six, ((c >> 4) & four) | ((b >> 6) & two) << 4];
        let join = |[low, high]: [u32; 2]| u64::from(low) | u64::from(high) << 32;
        let mins = _mm_cvtepu8_epi16(_mm_cvtsi64_si128(join(mins) as i64));
        // SAFETY: 16 bytes at the start of 32.
        unsafe { _mm_storeu_si128(self.panel.mins[self.m].as_mut_ptr().cast(), mins) };
        self.panel.d[self.m] = half_at(from, 0);
        self.panel.dmin[self.m] = half_at(from, 2);
        join(scales)
    }

    /// Stores the low and the high bytes of `scale * q + offset` for the 64 values of `step`. `q` are signed bytes, `scale` words:
    /// one for both bytes in its place.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    #[inline]
    fn split(&mut self, step: usize, q: __m512i, scale: __m512i, offset: i16) {
        let offset = _mm512_set1_epi16(offset);
        let even = _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(q));
        let odd = _mm512_srai_epi16::<8>(q);
        let even = _mm512_add_epi16(_mm512_mullo_epi16(even, scale), offset);
        let odd = _mm512_add_epi16(_mm512_mullo_epi16(odd, scale), offset);
        // Bits of the mask from one operand, the others from the other.
        const SELECT: i32 = 0xca;
        let mask = _mm512_set1_epi16(0xff);
        let lo = _mm512_ternarylogic_epi32::<SELECT>(mask, even, _mm512_slli_epi16::<8>(odd));
        let hi = _mm512_ternarylogic_epi32::<SELECT>(mask, _mm512_srli_epi16::<8>(even), odd);
        let (half, row) = (self.m / 16, self.m % 16);
        // SAFETY: each row of the panel's bytes has 64.
        unsafe {
            _mm512_storeu_si512(self.panel.lo[half][step][row].as_mut_ptr().cast(), lo);
            _mm512_storeu_si512(self.panel.hi[half][step][row].as_mut_ptr().cast(), hi);
        }
    }
}

/// The half-precision number at byte `at`.
#[target_feature(enable = "f16c")]
#[inline]
fn half_at<const BYTES: usize>(from: &[u8; BYTES], at: usize) -> f32 {
    let bits = i32::from(from[at]) | i32::from(from[at + 1]) << 8;
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)))
}

/// The 32 bytes at `at`, twice.
#[target_feature(enable = "avx512f")]
#[inline]
fn twice<const BYTES: usize>(from: &[u8; BYTES], at: usize) -> __m512i {
    assert!(at + 32 <= BYTES);
    // SAFETY: 32 readable bytes by the assertion.
    _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(from.as_ptr().add(at).cast()) })
}

/// The low nibbles of the 32 bytes at `at`, then their high nibbles.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn nibbles<const BYTES: usize>(from: &[u8; BYTES], at: usize) -> __m512i {
    _mm512_and_si512(_mm512_srlv_epi16(twice(from, at), halves(0, 4)), _mm512_set1_epi8(15))
}

/// Words: the first 16 `low`, the others `high`.
#[target_feature(enable = "avx512f")]
#[inline]
fn halves(low: i16, high: i16) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm256_set1_epi16(low)), _mm256_set1_epi16(high))
}

/// Bytes `2 * step` (first 32 values) and `2 * step + 1` of eight, as words.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn words_of_bytes(scales: u64, step: usize) -> __m512i {
    let pair = scales >> (16 * step);
    halves((pair & 0xff) as i16, (pair >> 8 & 0xff) as i16)
}

/// Words `4 * step ..` of 16, each for 16 values.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
#[inline]
fn words_of_words(scales: __m256i, step: usize) -> __m512i {
    let place = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
    // The same index in each word of a lane: 4 * step + lane.
    let place = _mm512_mullo_epi64(place, _mm512_set1_epi64(0x0001_0001_0001_0001));
    let place = _mm512_add_epi16(place, _mm512_set1_epi16(4 * step as i16));
    _mm512_permutexvar_epi16(place, _mm512_castsi256_si512(scales))
}
