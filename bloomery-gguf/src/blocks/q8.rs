//! Q8_0: 32 bytes and a scale.

use super::{F16, block::block};

block! {
    /// `x = d * q`. Quantisers write q in -127..=127; other files may hold -128.
    BlockQ8_0: 32 values in 34 bytes {
        /// Scale.
        d: F16,
        /// Values in units of `d`.
        qs: [i8; 32],
    }
    impl Block {
        #[inline(always)]
        fn quants(&self, _group: usize) -> [i8; 32] {
            self.qs
        }

        #[inline(always)]
        fn factor(&self, _run: usize) -> f32 {
            self.d.to_f32()
        }
    }
}
