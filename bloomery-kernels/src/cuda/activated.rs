//! Activations as kernels take them.

use crate::abi::activation::{GELU, SIGMOID, SILU};
use crate::cpu::Activation;

/// What gates go through, and what both they and what they multiply are limited to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Activated {
    pub(super) act: u32,
    pub(super) limit: f32,
}

impl Activated {
    pub(super) const SIGMOID: Self = Self { act: SIGMOID, limit: f32::INFINITY };
    pub(super) const SILU: Self = Self { act: SILU, limit: f32::INFINITY };

    /// If there are kernels for it.
    pub(super) fn new(activation: Activation) -> Option<Self> {
        match activation {
            Activation::Silu => Some(Self::SILU),
            Activation::GeluTanh => Some(Self { act: GELU, ..Self::SILU }),
            Activation::ClampedSilu { limit } if limit > 0.0 => Some(Self { limit, ..Self::SILU }),
            Activation::ClampedSilu { .. } | Activation::Gelu | Activation::Relu => None,
        }
    }
}
