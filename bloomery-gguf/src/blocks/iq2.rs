//! IQ2_XXS, IQ2_XS and IQ2_S: groups of eight values from a codebook, with signs.

use super::{
    F16, IQ2_S_GRID, IQ2_XS_GRID, IQ2_XXS_GRID,
    block::{Signed, even_signs, super_block},
};

/// Eight values of 8, 25 or 43 from an entry of an IQ2 grid.
#[inline(always)]
#[must_use]
pub const fn iq2_values(entry: u16) -> [i8; 8] {
    let mut out = [0; 8];
    let mut j = 0;
    while j < 8 {
        let place = ((entry >> (2 * j)) & 3) as i8;
        out[j] = 8 + 17 * place + (place >> 1);
        j += 1;
    }
    out
}

super_block! {
    /// `x = d / 8 * (2 scale + 1) * value`.
    BlockIQ2XXS: 66 bytes {
        /// Scale.
        d: F16,
        /// For each 32 values: four grid indices, then a word with four 7-bit sign indices and, on top, the scale.
        qs: [[u8; 8]; 8],
    }
    quants(self, group) {
        let ([a, b, c, d, ..], signs) = (self.qs[group & 7], self.word(group));
        let mut out = Signed::default();
        for (l, index) in [a, b, c, d].into_iter().enumerate() {
            out.set8(l, iq2_values(IQ2_XXS_GRID[usize::from(index)]), even_signs(signs >> (7 * l)));
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
            2 * (self.word(run >> 1) >> 28) as i32 + 1
        }
    }
}

impl BlockIQ2XXS {
    #[inline(always)]
    const fn word(&self, group: usize) -> u32 {
        let [_, _, _, _, a, b, c, d] = self.qs[group & 7];
        u32::from_le_bytes([a, b, c, d])
    }
}

super_block! {
    /// `x = d / 8 * (2 scale + 1) * value`.
    BlockIQ2XS: 74 bytes {
        /// Scale.
        d: F16,
        /// Little-endian words, four for each 32 values: grid index in the low nine bits, then a 7-bit sign index.
        qs: [[u8; 8]; 8],
        /// Scales of the runs of 16: even runs in the low nibbles.
        scales: [u8; 8],
    }
    quants(self, group) {
        let words = u64::from_le_bytes(self.qs[group & 7]);
        let mut out = Signed::default();
        for l in 0..4 {
            let word = (words >> (16 * l)) as u16;
            out.set8(l, iq2_values(IQ2_XS_GRID[usize::from(word & 511)]), even_signs((word >> 9).into()));
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
            nibble_scale(&self.scales, run)
        }
    }
}

super_block! {
    /// `x = d / 8 * (2 scale + 1) * value`.
    BlockIQ2S: 82 bytes {
        /// Scale.
        d: F16,
        /// Low eight bits of the grid indices, four for each 32 values.
        qs: [[u8; 4]; 8],
        /// Signs of eight values each.
        signs: [[u8; 4]; 8],
        /// High two bits of the grid indices: index l of the 32 values in bits 2l, 2l + 1.
        qh: [u8; 8],
        /// Scales of the runs of 16: even runs in the low nibbles.
        scales: [u8; 8],
    }
    quants(self, group) {
        let group = group & 7;
        let mut out = Signed::default();
        for l in 0..4 {
            let high = (u16::from(self.qh[group]) >> (2 * l)) & 3;
            let index = u16::from(self.qs[group][l]) | high << 8;
            out.set8(l, iq2_values(IQ2_S_GRID[usize::from(index)]), self.signs[group][l]);
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
            nibble_scale(&self.scales, run)
        }
    }
}

#[inline(always)]
fn nibble_scale(scales: &[u8; 8], run: usize) -> i32 {
    2 * i32::from((scales[(run >> 1) & 7] >> (4 * (run & 1))) & 15) + 1
}
