//! Residual streams.

mod gated;
mod hyper;
mod mean;

pub use gated::{StreamNorm, StreamProducts, StreamWrite};
pub use hyper::{HyperConnections, HyperMade, HyperPass, HyperRead, HyperWrite};
pub use mean::{GatedMean, StreamMean};

use super::{CudaError, Span};

/// Threads of a block where each has eight of `width` values at a time.
pub(super) fn threads_of_eights(width: usize) -> u32 {
    (width.div_ceil(8).min(512) as u32).next_multiple_of(32).clamp(64, 512)
}

/// An error unless all addresses are multiples of 16.
pub(super) fn aligned(name: &'static str, spans: &[&Span<f32>]) -> Result<(), CudaError> {
    let addresses = spans.iter().fold(0, |all, span| all | span.address());
    let rule = || "a multiple of 16".to_owned();
    CudaError::require(name, "an address", addresses, addresses.is_multiple_of(16), rule)
}

/// An error for anything but `1..=most` values.
pub(super) fn some(
    name: &'static str,
    what: &'static str,
    found: usize,
    most: usize,
) -> Result<(), CudaError> {
    let holds = (1..=most).contains(&found);
    CudaError::require(name, what, found as u64, holds, || format!("1 to {most}"))
}
