//! Unpacking of the 32-value formats and of floats into [`Pair`]s.

use bloomery_gguf::blocks::{FP4_VALUES, IQ4_VALUES, e8m0_half};

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
/// f16 scale, 4 bits that choose one of sixteen i8.
pub(super) struct IQ4NL;
/// Power of two as scale, floats of 4 bits.
pub(super) struct MXFP4;

/// The doubled values of MXFP4, raised by 12 to be unsigned.
const FP4_RAISED: [u8; 16] = {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = (FP4_VALUES[i] + 12) as u8;
        i += 1;
    }
    table
};

/// The values of IQ4_NL as bytes.
pub(super) const IQ4_BYTES: [u8; 16] = {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = IQ4_VALUES[i] as u8;
        i += 1;
    }
    table
};

/// The scale of an MXFP4 block by its exponent. A load is quicker than the two cases of the arithmetic.
static E8M0: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut e = 0;
    while e < 256 {
        table[e] = e8m0_half(e as u8);
        e += 1;
    }
    table
};

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

/// Formats: bytes, offset, minimum, quants and, if they are no f16, scales.
macro_rules! narrow {
    ($($name:ident, $bytes:literal, $offset:literal, $min:expr, |$at:ident| $quants:expr $(, $scales:expr)?;)*) => {
        $(impl Narrow for $name {
            const BYTES: usize = $bytes;
            const OFFSET: u8 = $offset;
            const MIN: Option<usize> = $min;

            #[inline(always)]
            unsafe fn quants<V: Pair>($at: [*const u8; 2]) -> V {
                // SAFETY: the caller's blocks; the reads stay within their `BYTES`.
                unsafe { $quants }
            }
            $(#[inline(always)]
            unsafe fn scales<V: Pair>($at: [*const u8; 2]) -> V::Floats {
                // SAFETY: as above.
                unsafe { $scales }
            })?
        })*
    };
}

narrow! {
    Q8_0, 34, 128, None, |at| V::load([at[0].add(2), at[1].add(2)]);
    Q4_0, 18, 8, None, |at| V::nibbles([at[0].add(2), at[1].add(2)]);
    Q4_1, 20, 0, Some(2), |at| V::nibbles([at[0].add(4), at[1].add(4)]);
    Q5_0, 22, 16, None, |at| five_bits(at, 2, 6);
    Q5_1, 24, 0, Some(2), |at| five_bits(at, 4, 8);
    IQ4NL, 18, 128, None, |at| V::nibbles([at[0].add(2), at[1].add(2)]).lookup(&IQ4_BYTES);
    MXFP4, 17, 12, None, |at| V::nibbles([at[0].add(1), at[1].add(1)]).lookup(&FP4_RAISED),
        V::eights([E8M0[usize::from(*at[0])], E8M0[usize::from(*at[1])]]);
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
