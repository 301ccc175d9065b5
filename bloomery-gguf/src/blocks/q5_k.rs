//! Q5_K: Q4_K with a fifth bit.

use super::{
    F16, ScaleMins,
    block::{build, super_block},
};

super_block! {
    /// `x = d * scale * q - dmin * min`.
    BlockQ5K: 176 bytes {
        /// Scale of the scales.
        d: F16,
        /// Scale of the minimums.
        dmin: F16,
        /// Scales and minimums of the eight sub-blocks of 32.
        scales: ScaleMins,
        /// Fifth bits: bit j of byte l belongs to value l of sub-block j.
        qh: [u8; 32],
        /// Nibbles: sub-blocks 2c and 2c + 1 are the low and high nibbles of `qs[c]`.
        qs: [[u8; 32]; 4],
    }
    quants(self, group) {
        let (group, shift) = (group & 7, 4 * (group & 1));
        let low = &self.qs[group >> 1];
        build(|l| (((low[l] >> shift) & 15) | ((self.qh[l] >> group) & 1) << 4) as i8)
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
            self.scales.get(run >> 1).0.into()
        }

        #[inline(always)]
        fn min(&self, run: usize) -> i32 {
            self.scales.get(run >> 1).1.into()
        }
    }
}

impl BlockQ5K {
    /// Scale and minimum of the 32 values of `sub` (0..8), in units of `d` and `dmin`.
    #[inline(always)]
    #[must_use]
    pub const fn scale_min(&self, sub: usize) -> (u8, u8) {
        self.scales.get(sub)
    }
}
