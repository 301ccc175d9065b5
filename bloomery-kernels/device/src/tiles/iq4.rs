//! IQ4_XS: nibbles that name one of 16 values, a scale of six bits for every 32, which is 32 too large.

use super::super::simt::{half, lane, ld_shared_u32x2, permute};
use super::{EMPTY, Raw, Scaling, Tile, Unpacked, chunk, load_chunks};

pub(crate) struct IQ4XS;

/// The values by their numbers, four to a word: -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113.
const VALUES: [u32; 4] = [0xbfad_9881, 0xf6ea_ddcf, 0x2619_0d01, 0x7159_4535];

/// The values that four nibbles name.
#[inline(always)]
fn values(nibbles: u32) -> u32 {
    let choice = nibbles & 0x7777;
    let (low, high) = (permute(VALUES[0], VALUES[1], choice), permute(VALUES[2], VALUES[3], choice));
    // Bit 3 of each nibble to all bits of its byte.
    let upper =
        (nibbles >> 3 & 1) | (nibbles << 1 & 0x100) | (nibbles << 5 & 0x1_0000) | (nibbles << 9 & 0x100_0000);
    let mask = upper * 0xff;
    (low & !mask) | (high & mask)
}

impl Tile for IQ4XS {
    const SCALING: Scaling = Scaling::Each32;

    #[inline(always)]
    unsafe fn load(at: u32) -> Raw {
        let mut raw = EMPTY;
        load_chunks::<4>(at, &mut raw);
        let at = at + 4 * 512 + 8 * (lane() / 4);
        let mut r = 0;
        while r < 2 {
            let head = ld_shared_u32x2(at + 64 * r as u32);
            (raw[16 + 2 * r], raw[17 + 2 * r]) = (head[0], head[1]);
            r += 1;
        }
        raw
    }

    #[inline(always)]
    fn unpack(raw: &Raw) -> Unpacked {
        let (mut scales, mut d) = ([[0; 4]; 2], [0.0; 2]);
        let mut r = 0;
        while r < 2 {
            let (head, low) = (raw[16 + 2 * r], raw[17 + 2 * r]);
            d[r] = half(head as u16);
            let mut s = 0;
            while s < 8 {
                let scale = (low >> (4 * s) & 0xf) | (head >> (16 + 2 * s) & 3) << 4;
                scales[r][s / 4] |= (scale.wrapping_sub(32) & 0xff) << (8 * (s % 4));
                s += 1;
            }
            r += 1;
        }
        let mut a = [[0; 4]; 8];
        let mut s = 0;
        while s < 8 {
            // A word is a row's 32 values: 4 t .. in its low half, 16 + 4 t .. in the high one.
            let words = chunk(raw, s / 2);
            let (top, bottom) = (words[s % 2], words[2 + s % 2]);
            a[s] = [values(top & 0xffff), values(bottom & 0xffff), values(top >> 16), values(bottom >> 16)];
            s += 1;
        }
        Unpacked { a, scales, sums: [0; 4], d, dmin: [0.0; 2], mins: [[0; 4]; 2] }
    }
}
