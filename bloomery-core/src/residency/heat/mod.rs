//! How often experts were chosen in the long run, kept between runs.

mod error;
mod file;
mod totals;

pub use error::HeatError;
pub(super) use totals::Totals;

/// Choices by routed layer and expert, in 256ths. Older ones count less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heat {
    pub(super) layers: Vec<Vec<u32>>,
}
