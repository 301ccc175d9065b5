//! Four weight rows in the lanes of 64-byte vectors.

use std::arch::x86_64::*;

use super::{lanes::Lanes, pairs::Pair};

/// Defines methods that are one expression of intrinsics.
macro_rules! ops {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty { $($body:tt)* })*) => {
        $(#[inline(always)]
        unsafe fn $name($($arg: $type),*) -> $out {
            // SAFETY: the caller has the instruction set, and pointers as the trait asks.
            unsafe { $($body)* }
        })*
    };
}
pub(super) use ops;

/// Sixteen words from four rows of four.
#[derive(Clone, Copy)]
pub(super) struct Z(__m512i);

impl Lanes for Z {
    const ROWS: usize = 4;
    type Floats = __m512;
    type Scale = Z;

    #[inline(always)]
    unsafe fn scale(pairs: Self) -> Self {
        pairs
    }

    ops! {
        fn zero() -> Self { Self(_mm512_setzero_si512()) }
        fn gather(rows: &[*const u8; 4], at: usize) -> Self {
            let first = _mm512_castsi128_si512(_mm_loadu_si128(rows[0].add(at).cast()));
            let v = _mm512_inserti32x4::<1>(first, _mm_loadu_si128(rows[1].add(at).cast()));
            let v = _mm512_inserti32x4::<2>(v, _mm_loadu_si128(rows[2].add(at).cast()));
            Self(_mm512_inserti32x4::<3>(v, _mm_loadu_si128(rows[3].add(at).cast())))
        }
        fn spread(at: *const u8) -> Self { Self(_mm512_broadcast_i32x4(_mm_loadu_si128(at.cast()))) }
        fn splat(byte: u8) -> Self { Self(_mm512_set1_epi8(byte as i8)) }
        fn and(self: Self, mask: Self) -> Self { Self(_mm512_and_si512(self.0, mask.0)) }
        fn or_and(self: Self, bits: Self, mask: Self) -> Self {
            // a | (b & c)
            Self(_mm512_ternarylogic_epi32::<0xf8>(self.0, bits.0, mask.0))
        }
        fn sub8(self: Self, other: Self) -> Self { Self(_mm512_sub_epi8(self.0, other.0)) }
        fn shift(self: Self, left: i32) -> Self {
            Self(match left {
                -5 => _mm512_srli_epi16::<5>(self.0),
                -4 => _mm512_srli_epi16::<4>(self.0),
                -3 => _mm512_srli_epi16::<3>(self.0),
                -2 => _mm512_srli_epi16::<2>(self.0),
                -1 => _mm512_srli_epi16::<1>(self.0),
                1 => _mm512_slli_epi16::<1>(self.0),
                2 => _mm512_slli_epi16::<2>(self.0),
                3 => _mm512_slli_epi16::<3>(self.0),
                4 => _mm512_slli_epi16::<4>(self.0),
                -6 => _mm512_srli_epi16::<6>(self.0),
                _ => self.0,
            })
        }
        fn shuffle(self: Self, table: &[u8; 16]) -> Self {
            Self(_mm512_shuffle_epi8(self.0, Self::spread(table.as_ptr()).0))
        }
        fn high_bytes(self: Self) -> Self { Self(_mm512_srai_epi16::<8>(self.0)) }
        fn madd(acc: Self, a: Self, b: Self) -> Self { Self(_mm512_dpwssd_epi32(acc.0, a.0, b.0)) }
        fn sub_shifted(self: Self, other: Self, shift: i32) -> Self {
            let shifted = match shift {
                2 => _mm512_slli_epi32::<2>(other.0),
                _ => _mm512_slli_epi32::<5>(other.0),
            };
            Self(_mm512_sub_epi32(self.0, shifted))
        }
        fn mac32(acc: Self, w: [Self; 4], x: [Self; 4], scale: Self) -> Self {
            // Eight products a word, each below 32 * 128: the words fit 16 bits.
            let zero = _mm512_setzero_si512();
            let first = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, w[0].0, x[0].0), w[1].0, x[1].0);
            let second = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, w[2].0, x[2].0), w[3].0, x[3].0);
            Self(_mm512_dpwssd_epi32(acc.0, _mm512_packs_epi32(first, second), scale.0))
        }
        fn mac16(acc: Self, w: [Self; 2], x: [Self; 2], scale: Self) -> Self {
            // Four products a word, at most 63 * 127 each: the words fit 16 bits.
            let zero = _mm512_setzero_si512();
            let first = _mm512_dpbusd_epi32(zero, w[0].0, x[0].0);
            let second = _mm512_dpbusd_epi32(zero, w[1].0, x[1].0);
            Self(_mm512_dpwssd_epi32(acc.0, _mm512_packs_epi32(first, second), scale.0))
        }
        fn lookup(table: &[u8; 16], index: Self) -> Self {
            Self(_mm512_shuffle_epi8(Self::spread(table.as_ptr()).0, index.0))
        }
        fn mac_signed(acc: Self, w: Self, x: Self, scale: Self) -> Self {
            // Two products a 16-bit word, at most 127 * 127 each.
            let x = _mm512_mask_sub_epi8(x.0, _mm512_movepi8_mask(w.0), _mm512_setzero_si512(), x.0);
            Self(_mm512_dpwssd_epi32(acc.0, _mm512_maddubs_epi16(_mm512_abs_epi8(w.0), x), scale.0))
        }
        fn sum(self: Self) -> Self {
            let two = _mm512_add_epi32(self.0, _mm512_shuffle_epi32::<0b01_00_11_10>(self.0));
            Self(_mm512_add_epi32(two, _mm512_shuffle_epi32::<0b10_11_00_01>(two)))
        }
        fn sums(self: Self, other: Self) -> Self {
            let low = _mm512_unpacklo_epi32(self.0, other.0);
            let two = _mm512_add_epi32(low, _mm512_unpackhi_epi32(self.0, other.0));
            Self(_mm512_add_epi32(two, _mm512_shuffle_epi32::<0b01_00_11_10>(two)))
        }
        fn no_floats() -> __m512 { _mm512_setzero_ps() }
        fn halves(self: Self) -> __m512 {
            let firsts = _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 0, 0, 0, 0, 0, 0, 0, 0);
            _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi32(firsts, self.0)))
        }
        fn half_at(rows: &[*const u8; 4], at: usize) -> __m512 {
            let low = half_bits(rows[0], at) | half_bits(rows[1], at) << 16;
            let high = half_bits(rows[2], at) | half_bits(rows[3], at) << 16;
            let floats = _mm_cvtph_ps(_mm_cvtsi64_si128((low | high << 32) as i64));
            let lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
            _mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(floats))
        }
        fn fold(acc: __m512, d: __m512, x: f32, ints: Self) -> __m512 {
            _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(x)), _mm512_cvtepi32_ps(ints.0), acc)
        }
        fn ends(floats: __m512) -> [[f32; 2]; 4] {
            let mut all = [[0f32; 4]; 4];
            _mm512_storeu_ps(all.as_mut_ptr().cast(), floats);
            all.map(|lane| [lane[0], lane[1]])
        }
        fn prefetch(at: *const u8) -> () { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

impl Pair for Z {
    type Floats = __m512;

    ops! {
        fn load(at: [*const u8; 2]) -> Self {
            let first = _mm512_castsi256_si512(_mm256_loadu_si256(at[0].cast()));
            Self(_mm512_inserti64x4::<1>(first, _mm256_loadu_si256(at[1].cast())))
        }
        fn nibbles(at: [*const u8; 2]) -> Self {
            let first = _mm512_broadcast_i32x4(_mm_loadu_si128(at[0].cast()));
            let second = _mm_loadu_si128(at[1].cast());
            let both = _mm512_mask_broadcast_i32x4(first, 0xff00, second);
            let shifts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
            Self(_mm512_and_si512(_mm512_srlv_epi64(both, shifts), _mm512_set1_epi8(15)))
        }
        fn lookup(self: Self, table: &[u8; 16]) -> Self {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            Self(_mm512_shuffle_epi8(table, self.0))
        }
        fn fifth(self: Self, bits: [u32; 2]) -> Self {
            let mask = u64::from(bits[0]) | u64::from(bits[1]) << 32;
            Self(_mm512_mask_add_epi8(self.0, mask, self.0, _mm512_set1_epi8(16)))
        }
        fn zero() -> Self { Self(_mm512_setzero_si512()) }
        fn offset(self: Self, offset: u8) -> Self {
            let zero = _mm512_setzero_si512();
            if offset == 0 {
                return Self(zero);
            }
            let sums = _mm512_dpbusd_epi32(zero, _mm512_set1_epi8(offset as i8), self.0);
            Self(_mm512_sub_epi32(zero, sums))
        }
        fn dot(self: Self, x: Self, start: Self) -> Self { Self(_mm512_dpbusd_epi32(start.0, self.0, x.0)) }
        fn dot_signed(self: Self, x: Self, shift: Self) -> Self {
            let raised = _mm512_xor_si512(self.0, _mm512_set1_epi8(-128));
            Self(_mm512_dpbusd_epi32(shift.0, raised, x.0))
        }
        fn no_floats() -> __m512 { _mm512_setzero_ps() }
        fn eights(values: [f32; 2]) -> __m512 {
            let first = _mm512_set1_ps(values[0]);
            _mm512_mask_broadcastss_ps(first, 0xff00, _mm_set_ss(values[1]))
        }
        fn halves(at: [*const u8; 2]) -> __m512 {
            let both = half_bits(at[0], 0) | half_bits(at[1], 0) << 16;
            let floats = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi64_si128(both as i64)));
            let eights = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
            _mm512_permutexvar_ps(eights, floats)
        }
        fn fold(acc: __m512, d: __m512, x: __m512, ints: Self) -> __m512 {
            _mm512_fmadd_ps(_mm512_mul_ps(d, x), _mm512_cvtepi32_ps(ints.0), acc)
        }
        fn fold_first(acc: __m512, d: __m512, x: __m512, ints: Self) -> __m512 {
            _mm512_mask3_fmadd_ps(_mm512_mul_ps(d, x), _mm512_cvtepi32_ps(ints.0), acc, 0xff)
        }
        fn tree(acc: __m512) -> f32 {
            super::avx2::tree(_mm256_add_ps(_mm512_castps512_ps256(acc), _mm512_extractf32x8_ps::<1>(acc)))
        }
        fn f32s(at: *const u8) -> __m512 { _mm512_loadu_ps(at.cast()) }
        fn f16s(at: *const u8) -> __m512 { _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())) }
        fn bf16s(at: *const u8) -> __m512 {
            let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
        }
        fn fma(w: __m512, x: __m512, acc: __m512) -> __m512 { _mm512_fmadd_ps(w, x, acc) }
        fn lanes(floats: __m512) -> [f32; 16] {
            let mut all = [0f32; 16];
            _mm512_storeu_ps(all.as_mut_ptr(), floats);
            all
        }
        fn prefetch(at: *const u8) -> () { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        fn half(at: *const u8) -> f32 { super::avx2::half(at) }
    }
}

/// The two bytes at an offset of a row.
#[inline(always)]
pub(super) unsafe fn half_bits(row: *const u8, at: usize) -> u64 {
    // SAFETY: the caller's block has two bytes there.
    u64::from(unsafe { row.add(at).cast::<u16>().read_unaligned() })
}
