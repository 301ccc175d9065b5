//! Q4_K and Q5_K: nibbles, a scale and a minimum for every 32 values, six bits each.

use super::super::simt::{half, lane, ld_shared_u32x4};
use super::{EMPTY, Raw, Scaling, Tile, Unpacked, both, chunk, each, halves, load_chunks, operand};

const LOW: u32 = 0x0f0f_0f0f;

/// Heads of rows g and g + 8.
#[inline(always)]
unsafe fn load_heads(at: u32, raw: &mut Raw, to: usize) {
    let at = at + 16 * (lane() / 4);
    let mut r = 0;
    while r < 2 {
        let head = ld_shared_u32x4(at + 128 * r as u32);
        let mut i = 0;
        while i < 4 {
            raw[to + 4 * r + i] = head[i];
            i += 1;
        }
        r += 1;
    }
}

/// Everything but the operands, from the heads at `from`.
#[inline(always)]
fn unpack_heads(raw: &Raw, from: usize) -> Unpacked {
    let mut out = Unpacked {
        a: [[0; 4]; 8],
        scales: [[0; 4]; 2],
        sums: [0; 4],
        d: [0.0; 2],
        dmin: [0.0; 2],
        mins: [[0; 4]; 2],
    };
    let shift = 8 * (lane() % 4);
    let mut r = 0;
    while r < 2 {
        let [d, a, b, c] = chunk(raw, from / 4 + r);
        out.d[r] = half(d as u16);
        out.dmin[r] = half((d >> 16) as u16);
        out.scales[r][0] = a & 0x3f3f_3f3f;
        out.scales[r][1] = (c & LOW) | (a >> 2 & 0x3030_3030);
        // Minimums t and t + 4, each for two sums of 16.
        let low = (b & 0x3f3f_3f3f) >> shift & 0xff;
        let high = ((c >> 4 & LOW) | (b >> 2 & 0x3030_3030)) >> shift & 0xff;
        out.sums[r] = halves(low | low << 16);
        out.sums[2 + r] = halves(high | high << 16);
        r += 1;
    }
    out
}

/// 4 bits.
pub(crate) struct Q4K;

impl Tile for Q4K {
    const SCALING: Scaling = Scaling::Minimum;

    #[inline(always)]
    unsafe fn load(at: u32) -> Raw {
        let mut raw = EMPTY;
        load_chunks::<4>(at, &mut raw);
        load_heads(at + 4 * 512, &mut raw, 16);
        raw
    }

    #[inline(always)]
    fn unpack(raw: &Raw) -> Unpacked {
        let mut out = unpack_heads(raw, 16);
        let mut c = 0;
        while c < 4 {
            let words = operand(chunk(raw, c));
            out.a[2 * c] = each(words, |w| w & LOW);
            out.a[2 * c + 1] = each(words, |w| w >> 4 & LOW);
            c += 1;
        }
        out
    }
}

/// 5 bits.
pub(crate) struct Q5K;

impl Tile for Q5K {
    const SCALING: Scaling = Scaling::Minimum;

    #[inline(always)]
    unsafe fn load(at: u32) -> Raw {
        let mut raw = EMPTY;
        load_chunks::<5>(at, &mut raw);
        load_heads(at + 5 * 512, &mut raw, 20);
        raw
    }

    #[inline(always)]
    fn unpack(raw: &Raw) -> Unpacked {
        let mut out = unpack_heads(raw, 20);
        let high = operand(chunk(raw, 4));
        let mut c = 0;
        while c < 4 {
            let words = operand(chunk(raw, c));
            // Bit s of every byte belongs to the 32 values s.
            let fifth = |s: usize| each(high, |w| (w >> s & 0x0101_0101) << 4);
            out.a[2 * c] = both(each(words, |w| w & LOW), fifth(2 * c));
            out.a[2 * c + 1] = both(each(words, |w| w >> 4 & LOW), fifth(2 * c + 1));
            c += 1;
        }
        out
    }
}
