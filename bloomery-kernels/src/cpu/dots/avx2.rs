//! Two weight rows in the lanes of 32-byte vectors.

use std::arch::x86_64::*;

use super::{
    avx512::{half_bits, ops},
    lanes::Lanes,
    pairs::Pair,
};

/// Eight words from two rows of four.
#[derive(Clone, Copy)]
pub(super) struct Y(__m256i);

impl Lanes for Y {
    const ROWS: usize = 2;
    type Floats = __m256;
    type Scale = [Y; 2];

    ops! {
        fn zero() -> Self { Self(_mm256_setzero_si256()) }
        fn gather(rows: &[*const u8; 4], at: usize) -> Self {
            let first = _mm256_castsi128_si256(_mm_loadu_si128(rows[0].add(at).cast()));
            Self(_mm256_inserti128_si256::<1>(first, _mm_loadu_si128(rows[1].add(at).cast())))
        }
        fn spread(at: *const u8) -> Self { Self(_mm256_broadcastsi128_si256(_mm_loadu_si128(at.cast()))) }
        fn splat(byte: u8) -> Self { Self(_mm256_set1_epi8(byte as i8)) }
        fn and(self: Self, mask: Self) -> Self { Self(_mm256_and_si256(self.0, mask.0)) }
        fn or_and(self: Self, bits: Self, mask: Self) -> Self {
            Self(_mm256_or_si256(self.0, _mm256_and_si256(bits.0, mask.0)))
        }
        fn sub8(self: Self, other: Self) -> Self { Self(_mm256_sub_epi8(self.0, other.0)) }
        fn shift(self: Self, left: i32) -> Self {
            Self(match left {
                -6 => _mm256_srli_epi16::<6>(self.0),
                -5 => _mm256_srli_epi16::<5>(self.0),
                -4 => _mm256_srli_epi16::<4>(self.0),
                -3 => _mm256_srli_epi16::<3>(self.0),
                -2 => _mm256_srli_epi16::<2>(self.0),
                -1 => _mm256_srli_epi16::<1>(self.0),
                1 => _mm256_slli_epi16::<1>(self.0),
                2 => _mm256_slli_epi16::<2>(self.0),
                3 => _mm256_slli_epi16::<3>(self.0),
                4 => _mm256_slli_epi16::<4>(self.0),
                _ => self.0,
            })
        }
        fn shuffle(self: Self, table: &[u8; 16]) -> Self {
            Self(_mm256_shuffle_epi8(self.0, Self::spread(table.as_ptr()).0))
        }
        fn high_bytes(self: Self) -> Self { Self(_mm256_srai_epi16::<8>(self.0)) }
        fn madd(acc: Self, a: Self, b: Self) -> Self {
            Self(_mm256_add_epi32(acc.0, _mm256_madd_epi16(a.0, b.0)))
        }
        fn sub_shifted(self: Self, other: Self, shift: i32) -> Self {
            let shifted = match shift {
                2 => _mm256_slli_epi32::<2>(other.0),
                _ => _mm256_slli_epi32::<5>(other.0),
            };
            Self(_mm256_sub_epi32(self.0, shifted))
        }
        fn scale(pairs: Self) -> [Self; 2] {
            [Self(_mm256_unpacklo_epi64(pairs.0, pairs.0)), Self(_mm256_unpackhi_epi64(pairs.0, pairs.0))]
        }
        fn mac32(acc: Self, w: [Self; 4], x: [Self; 4], scale: [Self; 2]) -> Self {
            // Four products a 16-bit word, each below 32 * 128: no saturation, no overflow.
            let (w0, w1) = (_mm256_maddubs_epi16(w[0].0, x[0].0), _mm256_maddubs_epi16(w[1].0, x[1].0));
            let (w2, w3) = (_mm256_maddubs_epi16(w[2].0, x[2].0), _mm256_maddubs_epi16(w[3].0, x[3].0));
            let (first, second) = (Self(_mm256_add_epi16(w0, w1)), Self(_mm256_add_epi16(w2, w3)));
            Self::madd(Self::madd(acc, first, scale[0]), second, scale[1])
        }
        fn mac16(acc: Self, w: [Self; 2], x: [Self; 2], scale: [Self; 2]) -> Self {
            // Two products a 16-bit word, at most 63 * 127 each.
            let first = Self(_mm256_maddubs_epi16(w[0].0, x[0].0));
            let second = Self(_mm256_maddubs_epi16(w[1].0, x[1].0));
            Self::madd(Self::madd(acc, first, scale[0]), second, scale[1])
        }
        fn lookup(table: &[u8; 16], index: Self) -> Self {
            Self(_mm256_shuffle_epi8(Self::spread(table.as_ptr()).0, index.0))
        }
        fn mac_signed(acc: Self, w: Self, x: Self, scale: Self) -> Self {
            // Two products a 16-bit word, at most 127 * 127 each.
            let products = _mm256_maddubs_epi16(_mm256_abs_epi8(w.0), _mm256_sign_epi8(x.0, w.0));
            Self::madd(acc, Self(products), scale)
        }
        fn sum(self: Self) -> Self {
            let two = _mm256_add_epi32(self.0, _mm256_shuffle_epi32::<0b01_00_11_10>(self.0));
            Self(_mm256_add_epi32(two, _mm256_shuffle_epi32::<0b10_11_00_01>(two)))
        }
        fn sums(self: Self, other: Self) -> Self {
            let low = _mm256_unpacklo_epi32(self.0, other.0);
            let two = _mm256_add_epi32(low, _mm256_unpackhi_epi32(self.0, other.0));
            Self(_mm256_add_epi32(two, _mm256_shuffle_epi32::<0b01_00_11_10>(two)))
        }
        fn no_floats() -> __m256 { _mm256_setzero_ps() }
        fn halves(self: Self) -> __m256 {
            let firsts = _mm256_setr_epi32(0, 0, 4, 4, 0, 0, 0, 0);
            _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permutevar8x32_epi32(self.0, firsts)))
        }
        fn half_at(rows: &[*const u8; 4], at: usize) -> __m256 {
            let copies = 0x1_0001_0001_0001;
            let (low, high) = (half_bits(rows[0], at) * copies, half_bits(rows[1], at) * copies);
            _mm256_cvtph_ps(_mm_set_epi64x(high as i64, low as i64))
        }
        fn fold(acc: __m256, d: __m256, x: f32, ints: Self) -> __m256 {
            _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(x)), _mm256_cvtepi32_ps(ints.0), acc)
        }
        fn ends(floats: __m256) -> [[f32; 2]; 4] {
            let mut all = [[0f32; 4]; 4];
            _mm256_storeu_ps(all.as_mut_ptr().cast(), floats);
            all.map(|lane| [lane[0], lane[1]])
        }
        fn prefetch(at: *const u8) -> () { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

/// Two blocks of 32 bytes.
#[derive(Clone, Copy)]
pub(super) struct Y2([__m256i; 2]);

/// The products of every four values, the first factor unsigned; two neighbours must fit 16 bits.
#[inline(always)]
unsafe fn fours(unsigned: __m256i, signed: __m256i) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe { _mm256_madd_epi16(_mm256_maddubs_epi16(unsigned, signed), _mm256_set1_epi16(1)) }
}

/// 16 in every byte whose bit is set.
#[inline(always)]
unsafe fn sixteens(bits: u32) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe {
        let bytes =
            _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
        let spread = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), bytes);
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
        _mm256_and_si256(set, _mm256_set1_epi8(16))
    }
}

/// Low, then high nibbles of 16 bytes.
#[inline(always)]
unsafe fn nibbles(at: *const u8) -> __m256i {
    // SAFETY: the caller has AVX2 and 16 readable bytes.
    unsafe {
        let bytes = _mm_loadu_si128(at.cast());
        let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(bytes), _mm_srli_epi16::<4>(bytes));
        _mm256_and_si256(both, _mm256_set1_epi8(15))
    }
}

/// Eight copies of the f16 at `at`.
#[inline(always)]
unsafe fn eight_halves(at: *const u8) -> __m256 {
    // SAFETY: the caller has F16C and two readable bytes.
    unsafe { _mm256_cvtph_ps(_mm_set1_epi16(half_bits(at, 0) as i16)) }
}

#[inline(always)]
unsafe fn fold(acc: __m256, d: __m256, x: __m256, ints: __m256i) -> __m256 {
    // SAFETY: the caller has FMA.
    unsafe { _mm256_fmadd_ps(_mm256_mul_ps(d, x), _mm256_cvtepi32_ps(ints), acc) }
}

/// Eight lanes added: `i` and `i + 4`, then `+2`, `+1`.
#[inline(always)]
pub(super) unsafe fn tree(eight: __m256) -> f32 {
    // SAFETY: the caller has AVX2.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

/// The value of an f16.
#[inline(always)]
pub(super) unsafe fn half(at: *const u8) -> f32 {
    // SAFETY: the caller has F16C and two readable bytes.
    unsafe { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half_bits(at, 0) as i32))) }
}

/// Eight bf16 from `at`.
#[inline(always)]
unsafe fn eight_bf16(at: *const u8) -> __m256 {
    // SAFETY: the caller has AVX2 and 16 readable bytes.
    unsafe {
        let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
    }
}

impl Pair for Y2 {
    type Floats = [__m256; 2];

    ops! {
        fn load(at: [*const u8; 2]) -> Self {
            Self([_mm256_loadu_si256(at[0].cast()), _mm256_loadu_si256(at[1].cast())])
        }
        fn nibbles(at: [*const u8; 2]) -> Self { Self([nibbles(at[0]), nibbles(at[1])]) }
        fn lookup(self: Self, table: &[u8; 16]) -> Self {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            Self([_mm256_shuffle_epi8(table, self.0[0]), _mm256_shuffle_epi8(table, self.0[1])])
        }
        fn fifth(self: Self, bits: [u32; 2]) -> Self {
            let (first, second) = (sixteens(bits[0]), sixteens(bits[1]));
            Self([_mm256_or_si256(self.0[0], first), _mm256_or_si256(self.0[1], second)])
        }
        fn zero() -> Self { Self([_mm256_setzero_si256(); 2]) }
        fn offset(self: Self, offset: u8) -> Self {
            let zero = _mm256_setzero_si256();
            if offset == 0 || offset == 128 {
                return Self([zero; 2]);
            }
            let value = _mm256_set1_epi8(offset as i8);
            let (first, second) = (fours(value, self.0[0]), fours(value, self.0[1]));
            Self([_mm256_sub_epi32(zero, first), _mm256_sub_epi32(zero, second)])
        }
        fn dot(self: Self, x: Self, start: Self) -> Self {
            let first = _mm256_add_epi32(start.0[0], fours(self.0[0], x.0[0]));
            Self([first, _mm256_add_epi32(start.0[1], fours(self.0[1], x.0[1]))])
        }
        fn dot_signed(self: Self, x: Self, _shift: Self) -> Self {
            // |w| <= 128 and |x| <= 127: two products are at most 32 512.
            let (w, x) = (self.0, x.0);
            let first = fours(_mm256_abs_epi8(w[0]), _mm256_sign_epi8(x[0], w[0]));
            Self([first, fours(_mm256_abs_epi8(w[1]), _mm256_sign_epi8(x[1], w[1]))])
        }
        fn no_floats() -> [__m256; 2] { [_mm256_setzero_ps(); 2] }
        fn eights(values: [f32; 2]) -> [__m256; 2] { [_mm256_set1_ps(values[0]), _mm256_set1_ps(values[1])] }
        fn halves(at: [*const u8; 2]) -> [__m256; 2] { [eight_halves(at[0]), eight_halves(at[1])] }
        fn fold(acc: [__m256; 2], d: [__m256; 2], x: [__m256; 2], ints: Self) -> [__m256; 2] {
            [fold(acc[0], d[0], x[0], ints.0[0]), fold(acc[1], d[1], x[1], ints.0[1])]
        }
        fn fold_first(acc: [__m256; 2], d: [__m256; 2], x: [__m256; 2], ints: Self) -> [__m256; 2] {
            [fold(acc[0], d[0], x[0], ints.0[0]), acc[1]]
        }
        fn tree(acc: [__m256; 2]) -> f32 { tree(_mm256_add_ps(acc[0], acc[1])) }
        fn f32s(at: *const u8) -> [__m256; 2] {
            [_mm256_loadu_ps(at.cast()), _mm256_loadu_ps(at.add(32).cast())]
        }
        fn f16s(at: *const u8) -> [__m256; 2] {
            let (first, second) = (_mm_loadu_si128(at.cast()), _mm_loadu_si128(at.add(16).cast()));
            [_mm256_cvtph_ps(first), _mm256_cvtph_ps(second)]
        }
        fn bf16s(at: *const u8) -> [__m256; 2] { [eight_bf16(at), eight_bf16(at.add(16))] }
        fn fma(w: [__m256; 2], x: [__m256; 2], acc: [__m256; 2]) -> [__m256; 2] {
            [_mm256_fmadd_ps(w[0], x[0], acc[0]), _mm256_fmadd_ps(w[1], x[1], acc[1])]
        }
        fn lanes(floats: [__m256; 2]) -> [f32; 16] {
            let mut all = [0f32; 16];
            _mm256_storeu_ps(all.as_mut_ptr(), floats[0]);
            _mm256_storeu_ps(all.as_mut_ptr().add(8), floats[1]);
            all
        }
        fn prefetch(at: *const u8) -> () { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        fn half(at: *const u8) -> f32 { half(at) }
    }
}
