//! How far one list of distributions is from another.

use std::fmt;

use bloomery_examples::stats::{argmax, error_of_mean, kl_divergence, mean, quantile};

/// Collected over scored tokens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Divergence {
    divergence: Vec<f64>,
    agreement: Vec<f64>,
    /// Log-probability of the text's token: base, this run.
    base: Vec<f64>,
    run: Vec<f64>,
}

impl Divergence {
    /// Takes in the distributions before one token of the text: log-probabilities of the base and of this run.
    pub(crate) fn add(&mut self, base: &[f64], run: &[f64], target: u32) {
        // Rounded base values leave a tiny negative sum where the two are equal.
        self.divergence.push(kl_divergence(base, run).max(0.0));
        self.agreement.push(f64::from(u8::from(argmax(base) == argmax(run))));
        self.base.push(base[target as usize]);
        self.run.push(run[target as usize]);
    }

    /// Ratio of the perplexities, this run's over the base's, and its standard error.
    fn ratio(&self) -> (f64, f64) {
        let differences: Vec<f64> = self.base.iter().zip(&self.run).map(|(base, run)| base - run).collect();
        let ratio = mean(&differences).exp();
        (ratio, ratio * error_of_mean(&differences))
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let perplexity = |logs: &[f64]| {
            let value = (-mean(logs)).exp();
            (value, value * error_of_mean(logs))
        };
        let pair = |f: &mut fmt::Formatter<'_>, name: &str, (value, error): (f64, f64)| {
            writeln!(f, "{name:<22}{value:.6} +/- {error:.6}")
        };
        writeln!(f, "{:<22}{}", "tokens", self.divergence.len())?;
        pair(f, "PPL base", perplexity(&self.base))?;
        pair(f, "PPL", perplexity(&self.run))?;
        pair(f, "PPL ratio", self.ratio())?;
        pair(f, "mean KLD", (mean(&self.divergence), error_of_mean(&self.divergence)))?;
        for (name, fraction) in [
            ("max KLD", 1.0),
            ("99.9 % KLD", 0.999),
            ("99 % KLD", 0.99),
            ("95 % KLD", 0.95),
            ("90 % KLD", 0.9),
            ("median KLD", 0.5),
            ("10 % KLD", 0.1),
            ("min KLD", 0.0),
        ] {
            writeln!(f, "{name:<22}{:.6}", quantile(&self.divergence, fraction))?;
        }
        let shifts: Vec<f64> =
            self.base.iter().zip(&self.run).map(|(base, run)| run.exp() - base.exp()).collect();
        let squares: Vec<f64> = shifts.iter().map(|shift| shift * shift).collect();
        writeln!(f, "{:<22}{:.4} %", "RMS change of p", 100.0 * mean(&squares).sqrt())?;
        let (same, error) = (mean(&self.agreement), error_of_mean(&self.agreement));
        writeln!(f, "{:<22}{:.3} +/- {:.3} %", "same top token", 100.0 * same, 100.0 * error)
    }
}

#[cfg(test)]
mod tests {
    use bloomery_examples::stats::log_softmax;

    use super::*;

    #[test]
    fn equal_runs_do_not_diverge_and_known_ones_do() {
        let (p, q) = (log_softmax(&[1.0, 2.0, 3.0]), log_softmax(&[3.0, 2.0, 1.0]));
        let mut equal = Divergence::default();
        equal.add(&p, &p, 1);
        equal.add(&q, &q, 2);
        assert_eq!((equal.ratio().0, mean(&equal.divergence), mean(&equal.agreement)), (1.0, 0.0, 1.0));
        let mut other = Divergence::default();
        other.add(&p, &q, 2);
        assert_eq!(mean(&other.agreement), 0.0);
        assert!(
            (other.ratio().0 - (p[2] - q[2]).exp()).abs() < 1e-12,
            "the base is {} times likelier",
            other.ratio().0
        );
        assert!((other.divergence[0] - 2.0 * (p[2].exp() - p[0].exp())).abs() < 1e-12);
        assert!(other.to_string().contains("mean KLD"));
    }
}
