//! Q6_K: 256 values of six bits and a signed 8-bit scale for each 16.

use super::{
    F16,
    block::{build, super_block},
};

super_block! {
    /// `x = d * scale * (q - 32)`.
    BlockQ6K: 210 bytes {
        /// Low four bits. Each half H of the block has four groups s of 32 values: groups 0 and 1 are the low nibbles
        /// of `ql[2H]` and `ql[2H + 1]`, groups 2 and 3 their high nibbles.
        ql: [[u8; 32]; 4],
        /// High two bits: group s of half H in bits 2s, 2s + 1 of `qh[H]`.
        qh: [[u8; 32]; 2],
        /// Scales of the sixteen runs of 16.
        scales: [i8; 16],
        /// Scale of the scales.
        d: F16,
    }
    quants(self, group) {
        let (half, s) = ((group >> 2) & 1, group & 3);
        let (low, high) = (&self.ql[2 * half + (s & 1)], &self.qh[half]);
        let (low_shift, high_shift) = (4 * (s >> 1), 2 * s);
        build(|l| {
            (((low[l] >> low_shift) & 15) | ((high[l] >> high_shift) & 3) << 4) as i8 - 32
        })
    }
    impl SuperBlock {
        #[inline(always)]
        fn d(&self) -> f32 {
            self.d.to_f32()
        }

        #[inline(always)]
        fn scale(&self, run: usize) -> i32 {
            self.scales[run & 15].into()
        }
    }
}
