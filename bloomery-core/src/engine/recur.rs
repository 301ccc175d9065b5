//! Recurrent states of a step: what sequences go on from, and what is saved of them.

use super::Engine;
use super::step::{Share, Turn};
use crate::backend::Backend;
use crate::error::EngineError;
use crate::prefix::SlotUse;
use crate::state::{Keep, Known, StateId};

/// Empty for models that have none.
#[derive(Debug, Default)]
pub(super) struct States {
    /// By share.
    pub(super) from: Vec<Option<StateId>>,
    /// Rows of the step, ascending.
    pub(super) saves: Vec<(usize, StateId)>,
    /// By share.
    saved: Vec<Vec<Known>>,
}

impl Engine {
    /// Finds slots for what a step saves. A share that finds none even for its last row leaves the step for the next one.
    pub(super) fn assign_states(
        &self,
        backend: &mut dyn Backend,
        turns: &mut [Turn<'_>],
        before: &[usize],
        shares: &mut Vec<Share>,
    ) -> Result<States, EngineError> {
        let mut cache = self.inner.cache();
        let mut states = States::default();
        if !cache.pool.states.is_used() {
            return Ok(states);
        }
        shares.retain(|share| {
            let state = &mut turns[share.turn].session.state;
            let (first, last) = (before[share.turn], state.known().last().copied());
            debug_assert_eq!(
                last.map_or(0, |last| last.len),
                first + share.start,
                "the state is of other rows"
            );
            let from = last.map(|last| last.state.id());
            // Where the last one stays known there will be one more.
            let slot_use =
                if last.is_some_and(|last| last.keep == Keep::No) { SlotUse::Moment } else { SlotUse::End };
            let slot = cache.state_slot(slot_use, backend).or_else(|| cache.overwrite_end(state, backend));
            let Some(slot) = slot.or_else(|| cache.state_slot(SlotUse::End, backend)) else { return false };
            states.from.push(from);
            states.saved.push(vec![Known { len: first + share.end, state: slot, keep: Keep::No }]);
            true
        });
        if shares.is_empty() {
            return Err(EngineError::NoStateSlot { total: cache.pool.states.capacity() });
        }
        let mut row = 0;
        for (share, saved) in shares.iter().zip(&mut states.saved) {
            let turn = &turns[share.turn];
            let (first, fed) = (before[share.turn], turn.fed().len());
            // Guesses are the end of nothing.
            let goal = if turn.checks { 0 } else { turn.goal.unwrap_or(first + fed) };
            let mut inner = Vec::new();
            for len in first + share.start + 1..first + share.end {
                let keep = turn.session.state.wants_state(len, goal);
                let slot_use = match (keep, turn.checks) {
                    (_, true) => SlotUse::Moment,
                    (Keep::No, false) => continue,
                    (_, false) => SlotUse::Checkpoint,
                };
                let slot = cache.state_slot(slot_use, backend);
                inner.extend(slot.map(|state| Known { len, state, keep }));
            }
            for end in &mut *saved {
                end.keep = match turn.session.state.wants_state(end.len, goal) {
                    Keep::No if end.len == goal && fed > 1 => Keep::Spaced,
                    keep => keep,
                };
            }
            saved.splice(..0, inner);
            let at = |known: &Known| (row + known.len - first - share.start - 1, known.state.id());
            states.saves.extend(saved.iter().map(at));
            row += share.end - share.start;
        }
        Ok(states)
    }

    /// Has the sessions go on from what a step has saved, if it did.
    pub(super) fn take_states(&self, turns: &mut [Turn<'_>], shares: &[Share], states: States, done: bool) {
        if states.saved.is_empty() {
            return;
        }
        let pool = &mut self.inner.cache().pool.states;
        for (share, saved) in shares.iter().zip(states.saved) {
            if done {
                turns[share.turn].session.state.recurrent().advance(&saved, pool);
                continue;
            }
            for known in saved {
                pool.unpin(known.state);
                pool.release(known.state);
            }
        }
    }

    /// Most guesses that a step of `streams` can take back.
    pub(crate) fn guess_room(&self, streams: usize) -> usize {
        let cache = self.inner.cache();
        let states = &cache.pool.states;
        match states.is_used() {
            true => (states.available() + states.passing()).saturating_sub(streams),
            false => usize::MAX,
        }
    }
}
