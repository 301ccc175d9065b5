//! IQ4_XS in lanes: 4 bits that choose one of sixteen i8, a signed 6-bit scale for 32 values.

use super::{
    kquants::{Wide, fours},
    lanes::{Lanes, Row},
    small::IQ4_BYTES,
};

/// f16 scale, eight scales in 6 bytes, 4 bits.
pub(super) struct IQ4XS;

impl Wide for IQ4XS {
    const BYTES: usize = 136;
    const MINS: bool = false;

    #[inline(always)]
    unsafe fn block<V: Lanes, const T: usize>(
        w: &[*const u8; 4],
        x: &[Row; T],
        b: usize,
        acc: &mut [V::Floats; T],
    ) {
        // SAFETY: the caller's; every offset is inside the block's 136 bytes or 256 values.
        unsafe {
            let scales = scales(V::gather(w, 0));
            let mut isum = [V::zero(); T];
            for (k, table) in EIGHTS.iter().enumerate() {
                let (q, low) = (V::gather(w, 8 + 16 * k), V::splat(15));
                let first = V::lookup(&IQ4_BYTES, q.and(low));
                let second = V::lookup(&IQ4_BYTES, q.shift(-4).and(low));
                let scale = scales.shuffle(table).high_bytes();
                for (isum, x) in isum.iter_mut().zip(x) {
                    let at = x.q.add(256 * b + 32 * k);
                    *isum = V::mac_signed(*isum, first, V::spread(at), scale);
                    *isum = V::mac_signed(*isum, second, V::spread(at.add(16)), scale);
                }
            }
            let d = V::half_at(w, 0);
            for t in 0..T {
                acc[t] = V::fold(acc[t], d, *x[t].d.add(b), isum[t].sum());
            }
        }
    }
}

/// The eight signed scales from the 16 bytes at the start of a block.
#[inline(always)]
unsafe fn scales<V: Lanes>(head: V) -> V {
    const LOW: [u8; 16] = [4, 4, 5, 5, 6, 6, 7, 7, 4, 4, 5, 5, 6, 6, 7, 7];
    const HIGH: [u8; 16] = fours([2, 3, 2, 3]);
    const EVEN: [u8; 16] = [15, 0, 15, 0, 15, 0, 15, 0, 15, 0, 15, 0, 15, 0, 15, 0];
    const ODD: [u8; 16] = [0, 15, 0, 15, 0, 15, 0, 15, 0, 15, 0, 15, 0, 15, 0, 15];
    // SAFETY: the caller's instruction set; the constants have 16 bytes.
    unsafe {
        let (low, high) = (head.shuffle(&LOW), head.shuffle(&HIGH));
        let out = low.and(V::spread(EVEN.as_ptr())).or_and(low.shift(-4), V::spread(ODD.as_ptr()));
        let out = out.or_and(high.shift(4), V::spread(TOP[0].as_ptr()));
        let out = out.or_and(high.shift(2), V::spread(TOP[1].as_ptr()));
        let out = out.or_and(high, V::spread(TOP[2].as_ptr()));
        out.or_and(high.shift(-2), V::spread(TOP[3].as_ptr())).sub8(V::splat(32))
    }
}

/// Bits 4 and 5 of every fourth byte, from byte 0, 1, 2, 3 on.
const TOP: [[u8; 16]; 4] = {
    let mut tables = [[0; 16]; 4];
    let mut i = 0;
    while i < 16 {
        tables[i % 4][i] = 0x30;
        i += 1;
    }
    tables
};

/// Tables that spread scale `k` as the high bytes of all words.
const EIGHTS: [[u8; 16]; 8] = {
    let mut tables = [[0x80; 16]; 8];
    let mut i = 0;
    while i < 64 {
        tables[i / 8][2 * (i % 8) + 1] = (i / 8) as u8;
        i += 1;
    }
    tables
};
