//! Q5_0 and Q5_1: 32 values of five bits and a scale, without and with a minimum.

use super::{
    F16,
    block::{block, build, nibbles},
};

/// Nibbles with bit `i` of `high` as the fifth bit of value `i`.
#[inline(always)]
fn five_bits(low: &[u8; 16], high: [u8; 4]) -> [u8; 32] {
    let high = u32::from_le_bytes(high);
    let mut out = nibbles(low);
    for (i, q) in out.iter_mut().enumerate() {
        *q |= (((high >> (i & 31)) & 1) << 4) as u8;
    }
    out
}

block! {
    /// `x = d * (q - 16)`.
    BlockQ5_0: 32 values in 22 bytes {
        /// Scale.
        d: F16,
        /// Fifth bits, value i in bit i of the little-endian word.
        qh: [u8; 4],
        /// Values 0..16 in the low nibbles, 16..32 in the high ones.
        qs: [u8; 16],
    }
    impl Block {
        #[inline(always)]
        fn quants(&self, _group: usize) -> [i8; 32] {
            let q = five_bits(&self.qs, self.qh);
            build(|i| q[i] as i8 - 16)
        }

        #[inline(always)]
        fn factor(&self, _run: usize) -> f32 {
            self.d.to_f32()
        }
    }
}

block! {
    /// `x = d * q + m`.
    BlockQ5_1: 32 values in 24 bytes {
        /// Scale.
        d: F16,
        /// Value of q = 0.
        m: F16,
        /// Fifth bits, value i in bit i of the little-endian word.
        qh: [u8; 4],
        /// Values 0..16 in the low nibbles, 16..32 in the high ones.
        qs: [u8; 16],
    }
    impl Block {
        #[inline(always)]
        fn quants(&self, _group: usize) -> [i8; 32] {
            let q = five_bits(&self.qs, self.qh);
            build(|i| q[i] as i8)
        }

        #[inline(always)]
        fn factor(&self, _run: usize) -> f32 {
            self.d.to_f32()
        }

        #[inline(always)]
        fn offset(&self, _run: usize) -> f32 {
            -self.m.to_f32()
        }
    }
}
