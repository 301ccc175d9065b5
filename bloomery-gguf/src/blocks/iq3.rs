//! IQ3_XXS and IQ3_S: groups of four values from a codebook, with signs.

use super::{
    F16, IQ3_S_GRID, IQ3_XXS_GRID,
    block::{Signed, even_signs, super_block},
};

/// Four values of 4, 12, ... 52 or 62 from an entry of the IQ3_XXS grid.
#[inline(always)]
#[must_use]
pub const fn iq3_xxs_values(entry: u16) -> [i8; 4] {
    let mut out = [0; 4];
    let mut j = 0;
    while j < 4 {
        let place = ((entry >> (4 * j)) & 7) as i8;
        out[j] = 4 + 8 * place + if place == 7 { 2 } else { 0 };
        j += 1;
    }
    out
}

/// Four odd values of 1 to 15 from an entry of the IQ3_S grid.
#[inline(always)]
#[must_use]
pub const fn iq3_s_values(entry: u16) -> [i8; 4] {
    let mut out = [0; 4];
    let mut j = 0;
    while j < 4 {
        out[j] = 1 + 2 * ((entry >> (4 * j)) & 7) as i8;
        j += 1;
    }
    out
}

#[inline(always)]
fn join([a, b, c, d]: [i8; 4], [e, f, g, h]: [i8; 4]) -> [i8; 8] {
    [a, b, c, d, e, f, g, h]
}

super_block! {
    /// `x = d / 4 * (2 scale + 1) * value`.
    BlockIQ3XXS: 98 bytes {
        /// Scale.
        d: F16,
        /// Grid indices, eight for each 32 values.
        qs: [[u8; 8]; 8],
        /// A little-endian word for each 32 values: four 7-bit sign indices and, on top, the scale.
        signs: [[u8; 4]; 8],
    }
    quants(self, group) {
        let (group, signs) = (group & 7, u32::from_le_bytes(self.signs[group & 7]));
        let row = |index: u8| iq3_xxs_values(IQ3_XXS_GRID[usize::from(index)]);
        let mut out = Signed::default();
        for l in 0..4 {
            let values = join(row(self.qs[group][2 * l]), row(self.qs[group][2 * l + 1]));
            out.set8(l, values, even_signs(signs >> (7 * l)));
        }
        out.values()
    }
    impl SuperBlock {
        #[inline(always)]
        fn d(&self) -> f32 {
            self.d.to_f32() * 0.25
        }

        #[inline(always)]
        fn scale(&self, run: usize) -> i32 {
            2 * (u32::from_le_bytes(self.signs[(run >> 1) & 7]) >> 28) as i32 + 1
        }
    }
}

super_block! {
    /// `x = d * (2 scale + 1) * value`.
    BlockIQ3S: 110 bytes {
        /// Scale.
        d: F16,
        /// Low eight bits of the grid indices, eight for each 32 values.
        qs: [[u8; 8]; 8],
        /// Ninth bits of the grid indices.
        qh: [u8; 8],
        /// Signs of eight values each.
        signs: [[u8; 4]; 8],
        /// Scales of the sub-blocks of 32: even ones in the low nibbles.
        scales: [u8; 4],
    }
    quants(self, group) {
        let group = group & 7;
        let row = |r: usize| {
            let high = (u16::from(self.qh[group]) >> r) & 1;
            iq3_s_values(IQ3_S_GRID[usize::from(u16::from(self.qs[group][r]) | high << 8)])
        };
        let mut out = Signed::default();
        for l in 0..4 {
            out.set8(l, join(row(2 * l), row(2 * l + 1)), self.signs[group][l]);
        }
        out.values()
    }
    impl SuperBlock {
        #[inline(always)]
        fn d(&self) -> f32 {
            self.d.to_f32()
        }

        #[inline(always)]
        fn scale(&self, run: usize) -> i32 {
            let sub = (run >> 1) & 7;
            2 * i32::from((self.scales[sub >> 1] >> (4 * (sub & 1))) & 15) + 1
        }
    }
}
