//! Heads of a gated delta net.

use super::NAME;
use crate::abi::delta::{DIM, TAPS};
use crate::cuda::CudaError;

/// Heads of a gated delta net.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaShape {
    /// Heads of q and of k.
    pub key_heads: usize,
    /// Heads of v: a multiple of `key_heads`; head j reads key head `j % key_heads`.
    pub value_heads: usize,
    /// Values of a head of q and k: a multiple of 4, at most 128.
    pub key_dim: usize,
    /// Values of a head of v: a multiple of 4, at most 128.
    pub value_dim: usize,
    /// Weights of a channel of the convolution, 2 to 4: the current row's and those of the rows before it.
    pub taps: usize,
}

impl DeltaShape {
    /// Values of a row of q, k and v.
    #[must_use]
    pub const fn channels(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// Values of a row of the result.
    #[must_use]
    pub const fn outputs(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Values of a state: `[taps - 1][channels]`, the last rows of `qkv`, oldest first, then S,
    /// `[value_heads][value_dim][key_dim]`.
    #[must_use]
    pub const fn state_len(&self) -> usize {
        (self.taps - 1) * self.channels() + self.value_heads * self.value_dim * self.key_dim
    }

    /// Why there are no kernels for such heads, if there are none.
    ///
    /// # Errors
    /// [`CudaError::Contract`] with the number that is wrong.
    pub fn check(&self) -> Result<(), CudaError> {
        let Self { key_heads, value_heads, key_dim, value_dim, taps } = *self;
        let require = |what, found: usize, holds, rule: String| {
            CudaError::require(NAME, what, found as u64, holds, || rule)
        };
        require("heads of k", key_heads, key_heads > 0 && key_heads <= 1024, "1 to 1024".to_owned())?;
        let whole = value_heads > 0 && value_heads.is_multiple_of(key_heads) && value_heads <= 1024;
        require("heads of v", value_heads, whole, format!("a multiple of {key_heads}, at most 1024"))?;
        for (what, dim) in [("values of a head of k", key_dim), ("values of a head of v", value_dim)] {
            let fits = dim > 0 && dim.is_multiple_of(4) && dim <= DIM as usize;
            require(what, dim, fits, format!("a multiple of 4, at most {DIM}"))?;
        }
        require("taps", taps, (2..=TAPS as usize).contains(&taps), format!("2 to {TAPS}"))
    }
}
