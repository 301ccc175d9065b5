//! IQ4_NL and IQ4_XS: nibbles that name one of sixteen unevenly spaced values.

use super::{
    F16,
    block::{block, build, nibbles, super_block},
};

/// The sixteen values, in units of the scale.
pub const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

#[inline(always)]
fn values(bytes: &[u8; 16]) -> [i8; 32] {
    let q = nibbles(bytes);
    build(|i| IQ4_VALUES[usize::from(q[i] & 15)])
}

block! {
    /// `x = d * IQ4_VALUES[nibble]`.
    BlockIQ4NL: 32 values in 18 bytes {
        /// Scale.
        d: F16,
        /// Values 0..16 in the low nibbles, 16..32 in the high ones.
        qs: [u8; 16],
    }
    impl Block {
        #[inline(always)]
        fn quants(&self, _group: usize) -> [i8; 32] {
            values(&self.qs)
        }

        #[inline(always)]
        fn factor(&self, _run: usize) -> f32 {
            self.d.to_f32()
        }
    }
}

super_block! {
    /// `x = d * (scale - 32) * IQ4_VALUES[nibble]`.
    BlockIQ4XS: 136 bytes {
        /// Scale of the scales.
        d: F16,
        /// High two bits of the 6-bit scales: sub-block j of 32 in bits 2j, 2j + 1 of the little-endian word.
        scales_h: [u8; 2],
        /// Low four bits: sub-block j in the low (even j) or high nibble of byte j / 2.
        scales_l: [u8; 4],
        /// Nibbles of the sub-blocks: values 0..16 in the low ones, 16..32 in the high ones.
        qs: [[u8; 16]; 8],
    }
    quants(self, group) {
        values(&self.qs[group & 7])
    }
    impl SuperBlock {
        #[inline(always)]
        fn d(&self) -> f32 {
            self.d.to_f32()
        }

        #[inline(always)]
        fn scale(&self, run: usize) -> i32 {
            let sub = (run >> 1) & 7;
            let low = (self.scales_l[sub >> 1] >> (4 * (sub & 1))) & 15;
            let high = (u16::from_le_bytes(self.scales_h) >> (2 * sub)) & 3;
            i32::from(low) + 16 * i32::from(high) - 32
        }
    }
}
