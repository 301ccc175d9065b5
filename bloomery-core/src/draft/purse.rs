//! What a job may lose by guessing.

/// Share of a job's time that may be lost.
const SHARE: f64 = 0.02;

/// Steps whose time a job may lose at its beginning.
const FIRST: f64 = 2.0;

/// Steps whose time it may lose when guesses have gained more than that. Chance alone loses a few in a row.
const MOST: f64 = 16.0;

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
        let left = self.left.unwrap_or(FIRST * plain);
        // Time alone does not make it fuller than it was at first.
        let earned = (SHARE * time).min((FIRST * plain - left).max(0.0));
        self.left = Some((left + earned - lost).min(MOST * plain));
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
        assert!(lost <= SHARE * time + FIRST + 1.0, "{lost} of {time}");
        assert!(lost > 0.9 * SHARE * time, "it goes on trying");
    }
}
