//! IQ1_S and IQ1_M: groups of eight values of -1, 0 or 1 from a codebook, all shifted by an eighth up or down.
//!
//! The integers here are eight times the values, which makes the shift an integer too.

use super::{
    F16, IQ1_GRID,
    block::{Signed, build, super_block},
    f16_to_f32,
};

/// Eight values of an entry of the IQ1 grid, times eight, plus 1 or, if `down`, minus 1: -9, -7, -1, 1, 7 or 9.
#[inline(always)]
#[must_use]
pub const fn iq1_values(entry: u16, down: bool) -> [i8; 8] {
    let zero = if down { -9 } else { -7 };
    let mut out = [0; 8];
    let mut j = 0;
    while j < 8 {
        out[j] = zero + 8 * ((entry >> (2 * j)) & 3) as i8;
        j += 1;
    }
    out
}

super_block! {
    /// `x = d / 8 * (2 scale + 1) * (8 value ± 1)`.
    BlockIQ1S: 50 bytes {
        /// Scale.
        d: F16,
        /// Low eight bits of the grid indices, four for each 32 values.
        qs: [[u8; 4]; 8],
        /// A little-endian word for each 32 values: the high three bits of four grid indices, the scale in bits 12..15
        /// and the shift's sign on top.
        qh: [[u8; 2]; 8],
    }
    quants(self, group) {
        let (low, word) = (self.qs[group & 7], u16::from_le_bytes(self.qh[group & 7]));
        let mut out = Signed::default();
        for (l, low) in low.into_iter().enumerate() {
            let index = u16::from(low) | ((word >> (3 * l)) & 7) << 8;
            out.set8(l, iq1_values(IQ1_GRID[usize::from(index & 2047)], word & 0x8000 != 0), 0);
        }
        out.values()
    }
    impl SuperBlock {
        #[inline(always)]
        fn d(&self) -> f32 {
            self.d.to_f32() * 0.125
        }

        #[inline(always)]
        fn scale(&self, run: usize) -> i32 {
            2 * i32::from((u16::from_le_bytes(self.qh[(run >> 1) & 7]) >> 12) & 7) + 1
        }
    }
}

super_block! {
    /// `x = d / 8 * (2 scale + 1) * (8 value ± 1)`.
    BlockIQ1M: 56 bytes {
        /// Low eight bits of the grid indices, four for each 32 values.
        qs: [[u8; 4]; 8],
        /// A nibble for each grid index, even ones low: its high three bits, and the shift's sign on top.
        qh: [[u8; 2]; 8],
        /// Four little-endian words: the 3-bit scales of four runs of 16 and, on top, a nibble of the half-precision
        /// scale, lowest nibble first.
        scales: [[u8; 2]; 4],
    }
    quants(self, group) {
        let (low, nibbles) = (self.qs[group & 7], u16::from_le_bytes(self.qh[group & 7]));
        let mut out = Signed::default();
        for (l, low) in low.into_iter().enumerate() {
            let nibble = nibbles >> (4 * l);
            let index = u16::from(low) | (nibble & 7) << 8;
            out.set8(l, iq1_values(IQ1_GRID[usize::from(index & 2047)], nibble & 8 != 0), 0);
        }
        out.values()
    }
    impl SuperBlock {
        #[inline(always)]
        fn d(&self) -> f32 {
            let [a, b, c, d] = build(|i| u16::from_le_bytes(self.scales[i]) >> 12);
            f16_to_f32(a | b << 4 | c << 8 | d << 12) * 0.125
        }

        #[inline(always)]
        fn scale(&self, run: usize) -> i32 {
            let word = u16::from_le_bytes(self.scales[(run >> 2) & 3]);
            2 * i32::from((word >> (3 * (run & 3))) & 7) + 1
        }
    }
}
