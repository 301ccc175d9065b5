//! The small matrices of a layer's heads, as floats.

use bloomery_gguf::blocks::F16;
use bloomery_gguf::{Format, Gguf};
use bloomery_kernels::cpu::{KernelError, Numerics, Stack};

use crate::error::LoadError;
use crate::weights::{HeadsId, Weights};

/// One matrix for each head.
pub(super) struct HeadMatrices {
    format: Format,
    /// Heads, rows and columns.
    shape: (usize, usize, usize),
    bytes: Vec<u8>,
}

impl HeadMatrices {
    /// In 16 bits where that is all the values have, or, unless numerics are exact, where it loses less than the rounding of
    /// activations does elsewhere.
    pub(super) fn new(
        weights: &Weights,
        gguf: &Gguf,
        id: HeadsId,
        numerics: Numerics,
    ) -> Result<Self, LoadError> {
        let values = weights.heads_values(gguf, id)?;
        let is_short = |value: &f32| value.to_bits().trailing_zeros() >= 16;
        let format = match numerics {
            _ if values.iter().all(is_short) => Format::BF16,
            Numerics::Fast => Format::F16,
            Numerics::Exact => Format::F32,
        };
        let bytes = match format {
            Format::BF16 => values.iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect(),
            Format::F16 => values.iter().flat_map(|v| F16::from_f32(*v).0).collect(),
            _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        };
        Ok(Self { format, shape: weights.heads_shape(id), bytes })
    }

    pub(super) fn stack(&self) -> Result<Stack<'_>, KernelError> {
        let (count, rows, cols) = self.shape;
        Stack::new(self.format, count, rows, cols, &self.bytes)
    }
}
