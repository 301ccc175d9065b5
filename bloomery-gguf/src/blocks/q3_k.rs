//! Q3_K: 256 values of three bits and a signed 6-bit scale for each 16.

use super::{
    F16,
    block::{build, super_block},
};

super_block! {
    /// `x = d * (scale - 32) * (q - 4)`; the stored high bit says that the 4 is not subtracted.
    BlockQ3K: 110 bytes {
        /// High bits: bit g of byte l belongs to value l of the 32-value group g.
        hmask: [u8; 32],
        /// Low two bits: group s of half H in bits 2s, 2s + 1 of `qs[H]`.
        qs: [[u8; 32]; 2],
        /// Packed 6-bit scales: run k has its low four bits in a nibble of byte k % 8 and its high two bits in bits
        /// 2(k / 4) of byte 8 + k % 4.
        scales: [u8; 12],
        /// Scale of the scales.
        d: F16,
    }
    quants(self, group) {
        let (group, shift) = (group & 7, 2 * (group & 3));
        let low = &self.qs[group >> 2];
        build(|l| {
            let high = (self.hmask[l] >> group) & 1;
            (((low[l] >> shift) & 3) | high << 2) as i8 - 4
        })
    }
    impl SuperBlock {
        #[inline(always)]
        fn d(&self) -> f32 {
            self.d.to_f32()
        }

        #[inline(always)]
        fn scale(&self, run: usize) -> i32 {
            let run = run & 15;
            let low = (self.scales[run & 7] >> (4 * (run >> 3))) & 15;
            let high = (self.scales[8 + (run & 3)] >> (2 * (run >> 2))) & 3;
            i32::from(low | high << 4) - 32
        }
    }
}
