//! Q8_0: signed bytes, a half-precision scale for every 32.

use super::super::simt::{lane, ld_shared_u32x4};
use super::{EMPTY, Raw, Scaling, Tile, Unpacked, chunk, load_chunks, operand};

pub(crate) struct Q8_0;

impl Tile for Q8_0 {
    const SCALING: Scaling = Scaling::Floats;

    #[inline(always)]
    unsafe fn load(at: u32) -> Raw {
        let mut raw = EMPTY;
        load_chunks::<8>(at, &mut raw);
        let at = at + 8 * 512 + 16 * (lane() / 4);
        let mut r = 0;
        while r < 2 {
            let scales = ld_shared_u32x4(at + 128 * r as u32);
            let mut i = 0;
            while i < 4 {
                raw[32 + 4 * r + i] = scales[i];
                i += 1;
            }
            r += 1;
        }
        raw
    }

    #[inline(always)]
    fn unpack(raw: &Raw) -> Unpacked {
        let mut a = [[0; 4]; 8];
        let mut s = 0;
        while s < 8 {
            a[s] = operand(chunk(raw, s));
            s += 1;
        }
        Unpacked {
            a,
            scales: [chunk(raw, 8), chunk(raw, 9)],
            sums: [0; 4],
            d: [0.0; 2],
            dmin: [0.0; 2],
            mins: [[0; 4]; 2],
        }
    }
}
