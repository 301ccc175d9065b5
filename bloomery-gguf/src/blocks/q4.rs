//! Q4_0 and Q4_1: 32 nibbles and a scale, without and with a minimum.

use super::{
    F16,
    block::{block, build, nibbles},
};

block! {
    /// `x = d * (nibble - 8)`.
    BlockQ4_0: 32 values in 18 bytes {
        /// Scale.
        d: F16,
        /// Values 0..16 in the low nibbles, 16..32 in the high ones.
        qs: [u8; 16],
    }
    impl Block {
        #[inline(always)]
        fn quants(&self, _group: usize) -> [i8; 32] {
            let q = nibbles(&self.qs);
            build(|i| q[i] as i8 - 8)
        }

        #[inline(always)]
        fn factor(&self, _run: usize) -> f32 {
            self.d.to_f32()
        }
    }
}

block! {
    /// `x = d * nibble + m`.
    BlockQ4_1: 32 values in 20 bytes {
        /// Scale.
        d: F16,
        /// Value of nibble 0.
        m: F16,
        /// Values 0..16 in the low nibbles, 16..32 in the high ones.
        qs: [u8; 16],
    }
    impl Block {
        #[inline(always)]
        fn quants(&self, _group: usize) -> [i8; 32] {
            let q = nibbles(&self.qs);
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
