//! MXFP4 and NVFP4: 4-bit floats with an 8-bit float as scale.

use super::block::{block, build, nibbles};

/// The values of E2M1, doubled to be integers; the factors of the blocks are halved to match.
pub const FP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// `2^(e - 128)`: half of an E8M0 number. Exact; e = 0 and 1 are subnormal.
#[inline(always)]
#[must_use]
pub const fn e8m0_half(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e as u32 - 1) << 23 })
}

/// Half of an unsigned E4M3 number (the top bit is ignored); exact. 0x7F, its NaN, counts as 0.
#[inline(always)]
#[must_use]
pub const fn ue4m3_half(scale: u8) -> f32 {
    let (exponent, fraction) = ((scale >> 3) & 15, scale & 7);
    if scale == 0x7f {
        0.0
    } else if exponent == 0 {
        // 2^-10 is half of the unit of the subnormals.
        fraction as f32 * f32::from_bits(0x3a80_0000)
    } else {
        f32::from_bits((exponent as u32 + 119) << 23 | (fraction as u32) << 20)
    }
}

block! {
    /// `x = 2^(e - 128) * FP4_VALUES[nibble]`.
    BlockMXFP4: 32 values in 17 bytes {
        /// Exponent of the scale (E8M0).
        e: u8,
        /// Values 0..16 in the low nibbles, 16..32 in the high ones.
        qs: [u8; 16],
    }
    impl Block {
        #[inline(always)]
        fn quants(&self, _group: usize) -> [i8; 32] {
            let q = nibbles(&self.qs);
            build(|i| FP4_VALUES[usize::from(q[i] & 15)])
        }

        #[inline(always)]
        fn factor(&self, _run: usize) -> f32 {
            e8m0_half(self.e)
        }
    }
}

block! {
    /// `x = scale / 2 * FP4_VALUES[nibble]`. Files also carry a factor for the whole tensor, which is not in the block.
    BlockNVFP4: 64 values in 36 bytes {
        /// Scales of the four runs of 16 (unsigned E4M3; more than 0x7F is not a valid scale).
        scales: [u8; 4],
        /// Nibbles of the four runs: values 0..8 in the low ones, 8..16 in the high ones.
        qs: [[u8; 8]; 4],
    }
    impl Block {
        #[inline(always)]
        fn quants(&self, group: usize) -> [i8; 32] {
            let first = 2 * (group & 1);
            let mut out = [0; 32];
            for l in 0..16 {
                let shift = 4 * (l >> 3);
                let nibble = |run: usize| FP4_VALUES[usize::from((self.qs[run][l & 7] >> shift) & 15)];
                (out[l], out[l + 16]) = (nibble(first), nibble(first + 1));
            }
            out
        }

        #[inline(always)]
        fn factor(&self, run: usize) -> f32 {
            ue4m3_half(self.scales[run & 3])
        }
    }
}

impl BlockNVFP4 {
    /// Whether every scale is an unsigned E4M3 number.
    #[inline(always)]
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        let [a, b, c, d] = self.scales;
        (a | b | c | d) & 0x80 == 0
    }
}
