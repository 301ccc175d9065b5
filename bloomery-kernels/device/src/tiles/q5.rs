//! Q5_1: nibbles and a fifth bit, a half-precision scale and minimum for every 32.

use super::super::simt::{lane, ld_shared_u32x4};
use super::{EMPTY, Raw, Scaling, Tile, Unpacked, both, chunk, each, load_chunks, operand};

const LOW: u32 = 0x0f0f_0f0f;

pub(crate) struct Q5_1;

impl Tile for Q5_1 {
    const SCALING: Scaling = Scaling::FloatMinimum;

    #[inline(always)]
    unsafe fn load(at: u32) -> Raw {
        let mut raw = EMPTY;
        load_chunks::<5>(at, &mut raw);
        // Scales of rows g and g + 8, then minimums.
        let at = at + 5 * 512 + 16 * (lane() / 4);
        let mut r = 0;
        while r < 4 {
            let floats = ld_shared_u32x4(at + 128 * r as u32);
            let mut i = 0;
            while i < 4 {
                raw[20 + 4 * r + i] = floats[i];
                i += 1;
            }
            r += 1;
        }
        raw
    }

    #[inline(always)]
    fn unpack(raw: &Raw) -> Unpacked {
        let high = operand(chunk(raw, 4));
        // Bit s of every byte belongs to block s.
        let fifth = |s: usize| each(high, |w| (w >> s & 0x0101_0101) << 4);
        let (mut a, mut c) = ([[0; 4]; 8], 0);
        while c < 4 {
            let words = operand(chunk(raw, c));
            a[2 * c] = both(each(words, |w| w & LOW), fifth(2 * c));
            a[2 * c + 1] = both(each(words, |w| w >> 4 & LOW), fifth(2 * c + 1));
            c += 1;
        }
        let (scales, mins) = ([chunk(raw, 5), chunk(raw, 6)], [chunk(raw, 7), chunk(raw, 8)]);
        Unpacked { a, scales, sums: [0; 4], d: [0.0; 2], dmin: [0.0; 2], mins }
    }
}
