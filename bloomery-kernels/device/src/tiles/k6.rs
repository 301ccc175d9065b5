//! Q6_K: nibbles and pairs of bits, a signed scale for every 16 values; values are 32 too large.

use super::super::simt::{half, lane, ld_shared_u16, ld_shared_u32x4};
use super::{EMPTY, Raw, Scaling, Tile, Unpacked, both, chunk, each, load_chunks, operand, pairs_of_sixteen};

pub(crate) struct Q6K;

impl Tile for Q6K {
    const SCALING: Scaling = Scaling::Each16;
    const BIAS: i32 = 32;

    #[inline(always)]
    unsafe fn load(at: u32) -> Raw {
        let mut raw = EMPTY;
        load_chunks::<6>(at, &mut raw);
        let g = lane() / 4;
        let mut r = 0;
        while r < 2 {
            let row = g + 8 * r as u32;
            let scales = ld_shared_u32x4(at + 6 * 512 + 16 * row);
            let mut i = 0;
            while i < 4 {
                raw[24 + 4 * r + i] = scales[i];
                i += 1;
            }
            raw[32 + r] = ld_shared_u16(at + 6 * 512 + 256 + 2 * row).into();
            r += 1;
        }
        raw
    }

    #[inline(always)]
    fn unpack(raw: &Raw) -> Unpacked {
        let scales = [chunk(raw, 6), chunk(raw, 7)];
        let sums = [pairs_of_sixteen(scales[0]), pairs_of_sixteen(scales[1])];
        let mut a = [[0; 4]; 8];
        let mut c = 0;
        while c < 4 {
            // Chunk (H, i) has values 128 H + 32 i .. in its low nibbles and those 64 further in the high ones.
            let (h, i) = (c / 2, c % 2);
            let words = operand(chunk(raw, c));
            let high = operand(chunk(raw, 4 + h));
            let pair = |shift: usize| each(high, |w| (w >> shift & 0x0303_0303) << 4);
            a[4 * h + i] = both(each(words, |w| w & 0x0f0f_0f0f), pair(2 * i));
            a[4 * h + 2 + i] = both(each(words, |w| w >> 4 & 0x0f0f_0f0f), pair(4 + 2 * i));
            c += 1;
        }
        Unpacked {
            a,
            scales,
            sums: [sums[0][0], sums[1][0], sums[0][1], sums[1][1]],
            d: [half(raw[32] as u16), half(raw[33] as u16)],
            dmin: [0.0; 2],
            mins: [[0; 4]; 2],
        }
    }
}
