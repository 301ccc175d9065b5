//! How often guesses were right.

/// Weight of what was believed before, in guesses.
const PRIOR_WEIGHT: f64 = 2.0;

/// What a guess weighs after each later one of its kind: about the last 50 count.
const FADE: f64 = 1.0 - 1.0 / 50.0;

/// For each kind of guess, how often one was right; the newest count most.
#[derive(Debug)]
pub(super) struct Record {
    priors: &'static [f64],
    /// (right, all) of every kind.
    counts: Vec<(f64, f64)>,
}

impl Record {
    pub(super) fn new(priors: &'static [f64]) -> Self {
        Self { priors, counts: vec![(0.0, 0.0); priors.len()] }
    }

    /// Takes in whether a guess was right. Those after a wrong one are not judged, so this is given that all before were right.
    pub(super) fn judged(&mut self, kind: usize, right: bool) {
        let Some((rights, all)) = self.counts.get_mut(kind) else { return };
        *rights = *rights * FADE + f64::from(u8::from(right));
        *all = *all * FADE + 1.0;
    }

    /// How likely the next guess of this kind is right.
    pub(super) fn chance(&self, kind: usize) -> f64 {
        let prior = self.priors.get(kind).copied().unwrap_or_default();
        let (right, all) = self.counts.get(kind).copied().unwrap_or_default();
        (right + PRIOR_WEIGHT * prior) / (all + PRIOR_WEIGHT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_begins_with_what_is_believed_and_follows_what_is_seen() {
        let mut record = Record::new(&[0.25, 0.9]);
        assert_eq!((record.chance(0), record.chance(1)), (0.25, 0.9));
        (0..200).for_each(|_| record.judged(1, false));
        assert!(record.chance(1) < 0.04, "{}", record.chance(1));
        assert_eq!(record.chance(0), 0.25, "kinds are apart");
        (0..50).for_each(|_| record.judged(1, true));
        assert!(record.chance(1) > 0.6, "{}", record.chance(1));
    }
}
