//! How many recurrent states an engine has slots for, as a pure function.

use crate::error::Term;
use crate::units::Bytes;

/// Guesses that each session can take back in a step, unless memory is short. More are seldom right.
const GUESSES: usize = 4;
/// States of its past that each session can come back to, unless memory is short or the caller says otherwise: about as many
/// as a prompt of 16 000 tokens has at growing distances from its end.
const CHECKPOINTS: usize = 8;
/// Part of the memory beside weights that states may take beyond the one of every session, where the caller does not say.
const SHARE: u64 = 16;
/// States beyond those of the sessions, at least: one to come back to, and one that a step writes while it reads another.
const FEWEST: usize = 2;

/// Slots for recurrent states; none for models without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StateSlots {
    /// In all.
    pub(crate) slots: usize,
    /// Those of them that steps need for a moment only.
    pub(crate) reserve: usize,
}

impl StateSlots {
    /// Slots for states of `size`, at least one for each of `sessions`. `checkpoints` are for each session, `memory` is what
    /// weights leave.
    pub(super) fn of(size: Bytes, sessions: usize, checkpoints: Option<usize>, memory: Bytes) -> Self {
        if size == Bytes(0) {
            return Self::default();
        }
        let share = usize::try_from(memory.0 / SHARE / size.0).unwrap_or(usize::MAX).max(FEWEST);
        let steps = sessions.saturating_mul(1 + GUESSES);
        let wanted = sessions.saturating_mul(checkpoints.unwrap_or(CHECKPOINTS));
        let reserve = steps.min(share.div_ceil(2));
        let kept = if checkpoints.is_some() { wanted } else { wanted.min(share - reserve) };
        Self { slots: sessions.saturating_add(reserve).saturating_add(kept), reserve }
    }

    /// What they take.
    pub(super) fn term(self, size: Bytes) -> Option<Term> {
        let bytes = Bytes((self.slots as u64).saturating_mul(size.0));
        let detail = format!("{} states of {size}", self.slots);
        (self.slots > 0).then_some(Term { what: "recurrent states", bytes, detail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: Bytes = Bytes(66 << 20);
    const GIB: u64 = 1 << 30;

    fn of(sessions: usize, checkpoints: Option<usize>, gib: u64) -> (usize, usize) {
        let slots = StateSlots::of(STATE, sessions, checkpoints, Bytes(gib * GIB));
        (slots.slots, slots.reserve)
    }

    #[test]
    fn models_without_such_states_pay_nothing() {
        let none = StateSlots::of(Bytes(0), 4, Some(32), Bytes(GIB));
        assert_eq!((none, none.term(Bytes(0))), (StateSlots::default(), None));
    }

    #[test]
    fn they_take_a_share_of_what_is_left() {
        assert_eq!(of(1, None, 100), (1 + 5 + 8, 5));
        assert_eq!(of(4, None, 100), (4 + 20 + 32, 20));
        // 1 GiB and 256 MiB of 16 and 4.
        assert_eq!(of(1, None, 16), (1 + 5 + 8, 5));
        assert_eq!(of(4, None, 16), (4 + 8 + 7, 8));
        assert_eq!(of(4, None, 4), (4 + 2 + 1, 2));
        assert_eq!(of(4, None, 0), (4 + 1 + 1, 1));
    }

    #[test]
    fn what_is_asked_for_is_there() {
        assert_eq!(of(2, Some(32), 100), (2 + 10 + 64, 10));
        assert_eq!(of(2, Some(32), 0), (2 + 1 + 64, 1));
        assert_eq!(of(2, Some(0), 100), (2 + 10, 10));
        let term = StateSlots::of(STATE, 1, None, Bytes(100 * GIB)).term(STATE).unwrap();
        assert_eq!(term.to_string(), "recurrent states 924.00 MiB (14 states of 66.00 MiB)");
        assert!(StateSlots::of(STATE, usize::MAX, Some(7), Bytes(GIB)).term(STATE).is_some(), "no overflow");
    }
}
