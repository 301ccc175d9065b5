//! What a job may lose by guessing.

/// Share of a job's time that may be lost.
const SHARE: f64 = 0.02;

/// Steps whose time a job may lose at once: at its beginning, and after guesses that paid.
const STEPS: f64 = 2.0;

/// Seconds that a job may still lose. Estimates can be wrong; this holds whatever they say.
#[derive(Debug, Default)]
pub(super) struct Purse {
    left: Option<f64>,
}

impl Purse {
    /// Whether guesses may be checked.
    pub(super) fn is_open(&self) -> bool {
        self.left.is_none_or(|left| left > 0.0)
    }

    /// Takes in a step that took `time`, of which guesses `lost` so much; negative is what they gained. Without them it would
    /// have taken `plain`.
    pub(super) fn settle(&mut self, time: f64, lost: f64, plain: f64) {
        let most = STEPS * plain;
        self.left = Some((self.left.unwrap_or(most) + SHARE * time - lost).min(most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_bounded_by_a_share_of_the_time() {
        let mut purse = Purse::default();
        let (mut lost, mut time) = (0.0, 0.0);
        for _ in 0..10_000 {
            // Guesses that double a step and are never right.
            let guessing = purse.is_open();
            let step = if guessing { 2.0 } else { 1.0 };
            purse.settle(step, step - 1.0, 1.0);
            (lost, time) = (lost + step - 1.0, time + step);
        }
        assert!(lost <= SHARE * time + STEPS + 1.0, "{lost} of {time}");
        assert!(lost > 0.9 * SHARE * time, "it goes on trying");
    }
}
