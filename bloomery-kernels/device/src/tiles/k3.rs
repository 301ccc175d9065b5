//! Q3_K: pairs of bits and a high bit, a scale of six bits for every 16 values; values are 4 and scales 32 too large.

use super::super::simt::{half, lane, ld_shared_u16, ld_shared_u32};
use super::{EMPTY, Raw, Scaling, Tile, Unpacked, both, chunk, each, load_chunks, operand, pairs_of_sixteen};

pub(crate) struct Q3K;

/// Bytes less 32.
#[inline(always)]
fn less_32(word: u32) -> u32 {
    // No byte is below 0x80, so none borrows.
    (word | 0x8080_8080).wrapping_sub(0x2020_2020) ^ 0x8080_8080
}

/// Sixteen signed scales of twelve bytes.
#[inline(always)]
fn scales([a, b, c]: [u32; 3]) -> [u32; 4] {
    const LOW: u32 = 0x0f0f_0f0f;
    const PAIR: u32 = 0x0303_0303;
    [
        less_32((a & LOW) | (c & PAIR) << 4),
        less_32((b & LOW) | (c >> 2 & PAIR) << 4),
        less_32((a >> 4 & LOW) | (c >> 4 & PAIR) << 4),
        less_32((b >> 4 & LOW) | (c >> 6 & PAIR) << 4),
    ]
}

impl Tile for Q3K {
    const SCALING: Scaling = Scaling::Each16;
    const BIAS: i32 = 4;

    #[inline(always)]
    unsafe fn load(at: u32) -> Raw {
        let mut raw = EMPTY;
        load_chunks::<3>(at, &mut raw);
        let g = lane() / 4;
        let mut r = 0;
        while r < 2 {
            let row = g + 8 * r as u32;
            let mut i = 0;
            while i < 3 {
                raw[12 + 3 * r + i] = ld_shared_u32(at + 3 * 512 + 12 * row + 4 * i as u32);
                i += 1;
            }
            raw[18 + r] = ld_shared_u16(at + 3 * 512 + 192 + 2 * row).into();
            r += 1;
        }
        raw
    }

    #[inline(always)]
    fn unpack(raw: &Raw) -> Unpacked {
        let scales = [scales([raw[12], raw[13], raw[14]]), scales([raw[15], raw[16], raw[17]])];
        let sums = [pairs_of_sixteen(scales[0]), pairs_of_sixteen(scales[1])];
        let high = operand(chunk(raw, 2));
        let mut a = [[0; 4]; 8];
        let mut s = 0;
        while s < 8 {
            let low = operand(chunk(raw, s / 4));
            let pair = each(low, |w| w >> (2 * (s % 4)) & 0x0303_0303);
            a[s] = both(pair, each(high, |w| (w >> s & 0x0101_0101) << 2));
            s += 1;
        }
        Unpacked {
            a,
            scales,
            sums: [sums[0][0], sums[1][0], sums[0][1], sums[1][1]],
            d: [half(raw[18] as u16), half(raw[19] as u16)],
            dmin: [0.0; 2],
            mins: [[0; 4]; 2],
        }
    }
}
