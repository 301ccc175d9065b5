//! Numbers about logits and about samples of measurements.

/// Natural logarithms of the softmax of `logits`.
#[must_use]
pub fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&value| (f64::from(value) - max).exp()).sum();
    let shift = max + sum.ln();
    logits.iter().map(|&value| f64::from(value) - shift).collect()
}

/// Kullback-Leibler divergence of `q` from `p` in nats; both are log-probabilities.
#[must_use]
pub fn kl_divergence(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).filter(|(p, _)| **p > f64::NEG_INFINITY).map(|(p, q)| p.exp() * (p - q)).sum()
}

/// Index of the largest value, the first of equals; 0 for an empty slice.
pub fn argmax<T: PartialOrd>(values: &[T]) -> u32 {
    let best = (0..values.len()).reduce(|best, i| if values[i] > values[best] { i } else { best });
    best.unwrap_or(0) as u32
}

/// Largest difference of two slices of the same length. NaN counts as infinitely far.
#[must_use]
pub fn max_abs(a: &[f32], b: &[f32]) -> f32 {
    let far = |a: f32, b: f32| if a.is_nan() || b.is_nan() { f32::INFINITY } else { (a - b).abs() };
    a.iter().zip(b).map(|(&a, &b)| far(a, b)).fold(0.0, f32::max)
}

/// Mean of the values, NaN without any.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation of the sample (divided by n - 1), 0 for fewer than two values.
#[must_use]
pub fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// Standard error of the mean.
#[must_use]
pub fn error_of_mean(values: &[f64]) -> f64 {
    deviation(values) / (values.len() as f64).sqrt()
}

/// The value below which the share `fraction` (0 to 1) of the values lies, between neighbours in proportion.
/// NaN without values.
#[must_use]
pub fn quantile(values: &[f64], fraction: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = fraction.clamp(0.0, 1.0) * last as f64;
    let (low, share) = (place.floor() as usize, place.fract());
    sorted[low] * (1.0 - share) + sorted[(low + 1).min(last)] * share
}

/// The middle value.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_and_divergence_of_known_values() {
        let p = log_softmax(&[0.0, f32::ln(3.0)]);
        assert!((p[0].exp() - 0.25).abs() < 1e-7 && (p[1].exp() - 0.75).abs() < 1e-7);
        let q = log_softmax(&[0.0, 0.0]);
        let expected = 0.25 * f64::ln(0.5) + 0.75 * f64::ln(1.5);
        assert!((kl_divergence(&p, &q) - expected).abs() < 1e-7);
        assert_eq!(kl_divergence(&p, &p), 0.0);
        assert!(log_softmax(&[1000.0, 999.0]).iter().all(|v| v.is_finite()));
    }

    #[test]
    fn samples() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!((mean(&values), median(&values), quantile(&values, 1.0)), (2.5, 2.5, 4.0));
        assert!((deviation(&values) - 1.290_994).abs() < 1e-6);
        assert_eq!(deviation(&[1.0]), 0.0);
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(max_abs(&[1.0, f32::NAN], &[1.0, 0.0]), f32::INFINITY);
    }
}
