//! Q4_K: 256 nibbles, a 6-bit scale and a 6-bit minimum for each 32.

use super::{
    F16,
    block::{build, super_block},
};

/// Eight 6-bit scales and eight 6-bit minimums in twelve bytes; Q4_K and Q5_K share the packing.
///
/// Bytes 0..4 hold scales 0..4 and bytes 4..8 minimums 0..4 in their low six bits. Byte 8 + j holds the low four bits
/// of scale and minimum 4 + j in its low and high nibble; their top two bits are the top bits of bytes j and 4 + j.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct ScaleMins(pub [u8; 12]);

impl ScaleMins {
    /// Scale and minimum (0..=63) of the 32 values of `sub` (0..8).
    #[inline(always)]
    #[must_use]
    pub const fn get(&self, sub: usize) -> (u8, u8) {
        let (s, j) = (&self.0, sub & 3);
        if sub & 4 == 0 {
            (s[j] & 63, s[j + 4] & 63)
        } else {
            ((s[j + 8] & 15) | (s[j] >> 6) << 4, (s[j + 8] >> 4) | (s[j + 4] >> 6) << 4)
        }
    }

    /// Packs scales and minimums; only their low six bits are kept.
    #[inline]
    #[must_use]
    pub fn pack(scales: &[u8; 8], mins: &[u8; 8]) -> Self {
        let mut s = [0; 12];
        for j in 0..4 {
            let (scale, min) = (scales[j + 4] & 63, mins[j + 4] & 63);
            s[j] = (scales[j] & 63) | (scale >> 4) << 6;
            s[j + 4] = (mins[j] & 63) | (min >> 4) << 6;
            s[j + 8] = (scale & 15) | min << 4;
        }
        Self(s)
    }
}

impl super::block::Field for ScaleMins {
    #[inline(always)]
    fn parse<const N: usize, const AT: usize>(bytes: &[u8; N]) -> Self {
        Self(<[u8; 12]>::parse::<N, AT>(bytes))
    }
}

super_block! {
    /// `x = d * scale * nibble - dmin * min`.
    BlockQ4K: 144 bytes {
        /// Scale of the scales.
        d: F16,
        /// Scale of the minimums.
        dmin: F16,
        /// Scales and minimums of the eight sub-blocks of 32.
        scales: ScaleMins,
        /// Nibbles: sub-blocks 2c and 2c + 1 are the low and high nibbles of `qs[c]`.
        qs: [[u8; 32]; 4],
    }
    quants(self, group) {
        let shift = 4 * (group & 1);
        let bytes = &self.qs[(group >> 1) & 3];
        build(|l| ((bytes[l] >> shift) & 15) as i8)
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

impl BlockQ4K {
    /// Scale and minimum of the 32 values of `sub` (0..8), in units of `d` and `dmin`.
    #[inline(always)]
    #[must_use]
    pub const fn scale_min(&self, sub: usize) -> (u8, u8) {
        self.scales.get(sub)
    }
}
