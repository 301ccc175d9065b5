//! Figures out of many times.

use std::time::Duration;

/// The `share` quantile, from 0 to 1, of times in any order.
pub(crate) fn quantile(times: &[Duration], share: f64) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

#[test]
fn quantiles_of_a_hundred() {
    let times: Vec<Duration> = (0..=100).rev().map(Duration::from_millis).collect();
    assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| quantile(&times, share).as_millis()), [0, 50, 99, 100]);
    assert_eq!(quantile(&[], 0.5), Duration::ZERO);
}
