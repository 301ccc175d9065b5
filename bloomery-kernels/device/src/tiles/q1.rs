//! Q4_1 and Q5_1: nibbles, without and with a fifth bit, a half-precision scale and minimum for every 32.

use super::super::simt::{lane, ld_shared_u32x4};
use super::{EMPTY, Raw, Scaling, Tile, Unpacked, both, chunk, each, load_chunks, operand};

const LOW: u32 = 0x0f0f_0f0f;

/// Scales of rows g and g + 8, then minimums.
#[inline(always)]
unsafe fn load_floats(at: u32, raw: &mut Raw, to: usize) {
    let at = at + 16 * (lane() / 4);
    let mut r = 0;
    while r < 4 {
        let floats = ld_shared_u32x4(at + 128 * r as u32);
        let mut i = 0;
        while i < 4 {
            raw[to + 4 * r + i] = floats[i];
            i += 1;
        }
        r += 1;
    }
}

/// Operands of nibbles, and scales and minimums from chunk `floats` of the words on.
#[inline(always)]
fn unpack_nibbles(raw: &Raw, floats: usize) -> Unpacked {
    let (mut a, mut c) = ([[0; 4]; 8], 0);
    while c < 4 {
        let words = operand(chunk(raw, c));
        a[2 * c] = each(words, |w| w & LOW);
        a[2 * c + 1] = each(words, |w| w >> 4 & LOW);
        c += 1;
    }
    Unpacked {
        a,
        scales: [chunk(raw, floats), chunk(raw, floats + 1)],
        sums: [0; 4],
        d: [0.0; 2],
        dmin: [0.0; 2],
        mins: [chunk(raw, floats + 2), chunk(raw, floats + 3)],
    }
}

/// 4 bits.
pub(crate) struct Q4_1;

impl Tile for Q4_1 {
    const SCALING: Scaling = Scaling::FloatMinimum;

    #[inline(always)]
    unsafe fn load(at: u32) -> Raw {
        let mut raw = EMPTY;
        load_chunks::<4>(at, &mut raw);
        load_floats(at + 4 * 512, &mut raw, 16);
        raw
    }

    #[inline(always)]
    fn unpack(raw: &Raw) -> Unpacked {
        unpack_nibbles(raw, 4)
    }
}

/// 5 bits.
pub(crate) struct Q5_1;

impl Tile for Q5_1 {
    const SCALING: Scaling = Scaling::FloatMinimum;

    #[inline(always)]
    unsafe fn load(at: u32) -> Raw {
        let mut raw = EMPTY;
        load_chunks::<5>(at, &mut raw);
        load_floats(at + 5 * 512, &mut raw, 20);
        raw
    }

    #[inline(always)]
    fn unpack(raw: &Raw) -> Unpacked {
        let mut out = unpack_nibbles(raw, 5);
        let (high, mut s) = (operand(chunk(raw, 4)), 0);
        while s < 8 {
            // Bit s of every byte belongs to block s.
            out.a[s] = both(out.a[s], each(high, |w| (w >> s & 0x0101_0101) << 4));
            s += 1;
        }
        out
    }
}
