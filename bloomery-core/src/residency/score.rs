//! How hot experts are.

/// Counts of choices in which an old choice counts less than a new one.
///
/// Instead of letting all counts decay at each step, a choice is worth more the later it comes: its *weight* doubles every
/// half-life. That is the same up to a common factor, so the order of two experts changes only when one of them is chosen,
/// a step costs nothing for those that were not, and all of it is integers: equal inputs give equal bits everywhere.
/// Between two doublings the weight grows linearly, at most 6 % above the exponential.
#[derive(Debug, Clone)]
pub(super) struct Scores {
    /// By flat number.
    values: Vec<u64>,
    half_life: u32,
    /// Doublings since the last rebase, and steps since the last doubling.
    octave: u32,
    within: u32,
    weight: u64,
}

/// The weight at octave 0: fine enough for half-lives of thousands of steps.
const UNIT: u64 = 1 << 16;
/// After so many doublings all scores are divided by 2^REBASE. What is lost then is 2^-24 of a choice; what is won are
/// 2^(64 - 16 - 24) = 16 million choices in one half-life until a score saturates.
const REBASE: u32 = 24;

impl Scores {
    pub(super) fn new(count: usize, half_life: u32) -> Self {
        Self { values: vec![0; count], half_life: half_life.max(1), octave: 0, within: 0, weight: UNIT }
    }

    /// What a choice is worth now.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// `count` choices in 256ths, in terms of scores.
    pub(super) fn worth(&self, count: u64) -> u64 {
        u64::try_from((u128::from(count) * u128::from(self.weight)) >> 8).unwrap_or(u64::MAX)
    }

    /// The score that an expert tends to which is chosen in every step, in 256ths of a choice: the sum of 2^(-n / half-life).
    pub(super) fn window(&self) -> u64 {
        // 1 / ln 2 = 1.4427 half-lives, and half of the newest step.
        (u64::from(self.half_life) * 14_427 / 10_000 + 1) << 8
    }

    #[inline]
    pub(super) fn get(&self, flat: u32) -> u64 {
        self.values[flat as usize]
    }

    #[inline]
    pub(super) fn add(&mut self, flat: u32, worth: u64) {
        let value = &mut self.values[flat as usize];
        *value = value.saturating_add(worth);
    }

    /// Lets `steps` steps pass. True if scores were rebased: their order is the same, but some may now be equal.
    pub(super) fn pass(&mut self, steps: u32) -> bool {
        let within = u64::from(self.within) + u64::from(steps);
        let half_life = u64::from(self.half_life);
        self.octave = self.octave.saturating_add(u32::try_from(within / half_life).unwrap_or(u32::MAX));
        self.within = (within % half_life) as u32;
        let rebased = self.octave >= REBASE;
        if rebased {
            let shift = self.octave.min(63);
            self.values.iter_mut().for_each(|value| *value >>= shift);
            self.octave = 0;
        }
        self.weight = (UNIT + UNIT * u64::from(self.within) / half_life) << self.octave;
        rebased
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_counts_half_after_a_half_life() {
        for half_life in [1, 2, 7, 32, 5000] {
            let mut scores = Scores::new(2, half_life);
            for _ in 0..3 {
                let before = scores.weight();
                scores.add(0, before);
                scores.pass(half_life);
                assert_eq!(scores.weight(), 2 * before);
            }
        }
    }

    #[test]
    fn weights_only_grow_and_rebasing_keeps_the_order() {
        let mut scores = Scores::new(3, 3);
        let mut rebases = 0;
        for step in 0..1000u32 {
            scores.add(step % 2, scores.weight());
            scores.add(0, scores.weight());
            let before = scores.weight();
            if scores.pass(1) {
                rebases += 1;
            } else {
                assert!(scores.weight() > before);
            }
            assert!(scores.get(0) > scores.get(1) || step == 0);
            assert_eq!(scores.get(2), 0);
        }
        assert_eq!(rebases, 1000 / (3 * REBASE));
    }

    #[test]
    fn the_window_is_what_constant_use_tends_to() {
        for half_life in [4, 32, 100] {
            let mut scores = Scores::new(1, half_life);
            for _ in 0..20 * half_life {
                scores.pass(1);
                scores.add(0, scores.weight());
            }
            let found = (scores.get(0) << 8) / scores.weight();
            let expected = scores.window();
            // The weight is up to 6 % above the exponential, and the newest step of a short half-life is more than its half.
            assert!(found.abs_diff(expected) * 100 < 10 * expected, "{found} for {expected}");
        }
    }

    #[test]
    fn nothing_overflows() {
        let mut scores = Scores::new(1, 1);
        scores.add(0, u64::MAX);
        scores.add(0, u64::MAX);
        assert_eq!(scores.get(0), u64::MAX);
        assert!(scores.pass(u32::MAX));
        assert!(scores.get(0) <= 1);
        scores.pass(23);
        assert_eq!(scores.worth(u64::MAX), u64::MAX);
    }
}
