//! Inputs and settings of the benchmarks. The table that compares whole models with llama.cpp is `bench`, among the examples.
//!
//! A benchmark is `group/series/case`: `benches/plot` draws one chart for each group, with the cases side by side. In a
//! group that compares with other crates, the series of this project is [`OURS`].
#![forbid(unsafe_code)]

mod inputs;
mod models;
mod qwen3;

pub use inputs::{ids, logits, values};
pub use models::{demo, large_vocabulary};
pub use qwen3::Qwen3;

use std::time::Duration;

use criterion::Criterion;

/// The series of this project, beside others.
pub const OURS: &str = "bloomery";

/// Two seconds a benchmark: there are some 150, and what they measure takes microseconds.
#[must_use]
pub fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1500))
}
