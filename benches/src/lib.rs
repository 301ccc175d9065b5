//! Inputs and settings of the benchmarks. The table that compares whole models with llama.cpp is `bench`, among the examples.
//!
//! A benchmark is `group/series/case`: `benches/plot` draws one chart for each group, with the cases side by side. In a
//! group that compares with other crates, the series of this project is [`OURS`].
#![forbid(unsafe_code)]

mod inputs;
mod models;
mod qwen3;
mod time;

pub use inputs::{ids, logits, values};
pub use models::{demo, large_vocabulary};
pub use qwen3::Qwen3;
pub use time::ProcessTime;

use std::time::Duration;

/// What benchmarks are run by.
pub type Criterion = criterion::Criterion<ProcessTime>;

/// The series of this project, beside others.
pub const OURS: &str = "bloomery";

/// A second a benchmark: there are some 140, and what they measure takes microseconds.
#[must_use]
pub fn criterion() -> Criterion {
    criterion::Criterion::default()
        .with_measurement(ProcessTime)
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(700))
}
