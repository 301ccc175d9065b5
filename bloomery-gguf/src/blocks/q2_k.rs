//! Q2_K: 256 values of two bits, a 4-bit scale and a 4-bit minimum for each 16.

use super::{
    F16,
    block::{build, super_block},
};

super_block! {
    /// `x = d * scale * q - dmin * min`.
    BlockQ2K: 84 bytes {
        /// Scale of each run of 16 in the low nibble, minimum in the high one.
        scales: [u8; 16],
        /// Values: the 32-value group s of half H in bits 2s, 2s + 1 of `qs[H]`.
        qs: [[u8; 32]; 2],
        /// Scale of the scales.
        d: F16,
        /// Scale of the minimums.
        dmin: F16,
    }
    quants(self, group) {
        let shift = 2 * (group & 3);
        let bytes = &self.qs[(group >> 2) & 1];
        build(|l| ((bytes[l] >> shift) & 3) as i8)
    }
    impl SuperBlock {
        #[inline(always)]
        fn d(&self) -> f32 {
            self.d.to_f32()
        }

        #[inline(always)]
        fn dmin(&self) -> f32 {
            self.dmin.to_f32()
        }

        #[inline(always)]
        fn scale(&self, run: usize) -> i32 {
            (self.scales[run & 15] & 15).into()
        }

        #[inline(always)]
        fn min(&self, run: usize) -> i32 {
            (self.scales[run & 15] >> 4).into()
        }
    }
}
