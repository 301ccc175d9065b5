//! Unpacking of the 32-value formats and of floats into [`Pair`]s.

use super::{
    pairs::{Narrow, Pair, Single},
    scalar::{BF16, F16, F32},
};

/// f16 scale, i8.
pub(super) struct Q8_0;
/// f16 scale, 4 bits with offset 8.
pub(super) struct Q4_0;
/// f16 scale and minimum, 4 bits.
pub(super) struct Q4_1;
/// f16 scale, 5 bits with offset 16.
pub(super) struct Q5_0;
/// f16 scale and minimum, 5 bits.
pub(super) struct Q5_1;

/// 16 bytes of nibbles at `quants` and 32 fifth bits at `high`.
#[inline(always)]
unsafe fn five_bits<V: Pair>(at: [*const u8; 2], high: usize, quants: usize) -> V {
    // SAFETY: the caller's blocks have 4 bytes at `high` and 16 at `quants`.
    unsafe {
        let bits = [at[0].add(high).cast::<u32>(), at[1].add(high).cast::<u32>()];
        let bits = [u32::from_le(bits[0].read_unaligned()), u32::from_le(bits[1].read_unaligned())];
        V::nibbles([at[0].add(quants), at[1].add(quants)]).fifth(bits)
    }
}

/// Formats: bytes, offset, minimum, quants.
macro_rules! narrow {
    ($($name:ident, $bytes:literal, $offset:literal, $min:expr, |$at:ident| $quants:expr;)*) => {
        $(impl Narrow for $name {
            const BYTES: usize = $bytes;
            const OFFSET: u8 = $offset;
            const MIN: Option<usize> = $min;

            #[inline(always)]
            unsafe fn quants<V: Pair>($at: [*const u8; 2]) -> V {
                // SAFETY: the caller's blocks; the reads stay within their `BYTES`.
                unsafe { $quants }
            }
        })*
    };
}

narrow! {
    Q8_0, 34, 128, None, |at| V::load([at[0].add(2), at[1].add(2)]);
    Q4_0, 18, 8, None, |at| V::nibbles([at[0].add(2), at[1].add(2)]);
    Q4_1, 20, 0, Some(2), |at| V::nibbles([at[0].add(4), at[1].add(4)]);
    Q5_0, 22, 16, None, |at| five_bits(at, 2, 6);
    Q5_1, 24, 0, Some(2), |at| five_bits(at, 4, 8);
}

/// Float formats: the load.
macro_rules! single {
    ($($name:ident, $load:ident;)*) => {
        $(impl Single for $name {
            #[inline(always)]
            unsafe fn load<V: Pair>(at: *const u8) -> V::Floats {
                // SAFETY: the caller's.
                unsafe { V::$load(at) }
            }
        })*
    };
}

single! {
    F32, f32s;
    F16, f16s;
    BF16, bf16s;
}
