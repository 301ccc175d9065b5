//! Rows of prompts that stop at the program's cut: layers behind it see no further back than the end of the prompt reaches.
//!
//! A text some of whose rows were shallow has no right keys of these in the layers behind the cut, which only rows near them would
//! read. Pages know their rows. A turn that begins where keys are missing goes back as far as the windows reach and runs those tokens
//! again before its own; keys before the cut are there already and are written as they were.

use std::cmp::Reverse;

use super::Engine;
use super::step::{Logits, Share, Turn};
use crate::state::PAGE;

/// Fewer shallow rows are not worth a step in two parts.
const FEWEST_SHALLOW: usize = 64;
/// Rows that go past the cut, if any do: with fewer, a card's products would round otherwise than those of the whole step.
const FEWEST_DEEP: usize = 64;
/// Their first is a multiple: rows of all buffers then begin at whole lines of a card's memory.
const GRID: usize = 32;

impl Engine {
    /// Finds the first row of a turn that has to go past the cut. Where keys are missing that it needs, its session goes back.
    pub(super) fn aim(&self, turn: &mut Turn<'_>) {
        let Some(narrow) = self.inner.narrow.filter(|_| !turn.tokens.is_empty()) else { return };
        let state = &mut turn.session.state;
        let (held, total) = (state.len(), state.all().len());
        let end = total + turn.tokens.len();
        // The first row whose result anybody sees, now or in the next turn.
        let wanted = match turn.want {
            Logits::All => total,
            Logits::Last => end - 1,
            Logits::None => turn.goal.unwrap_or(end).max(end) - 1,
        };
        let first = narrow.first_deep(wanted);
        let pool = &mut self.inner.cache().pool;
        if state.is_sound(held, narrow.reach, pool) {
            state.set_sound_from(held);
        } else {
            let sound_from = state.sound_from().unwrap_or(held.next_multiple_of(PAGE) + narrow.ramp);
            state.set_sound_from(sound_from);
            if first < held && sound_from + narrow.reach > wanted {
                let mut pages = (first / PAGE + 1..=held / PAGE).rev().map(|pages| pages * PAGE);
                let back = pages.find(|&len| state.is_sound(len, narrow.reach, pool)).unwrap_or(first);
                let ramp = if state.is_sound(back, narrow.reach, pool) { 0 } else { narrow.ramp };
                state.take_back(back, total, pool);
                state.set_sound_from(back + ramp);
            }
        }
        turn.first_deep = if self.inner.skips { first } else { 0 };
    }

    /// Puts shares with shallow rows first, and returns how many rows of the step are shallow.
    pub(super) fn shallow_rows(&self, turns: &[Turn<'_>], before: &[usize], shares: &mut [Share]) -> usize {
        let shallow = |share: &Share| {
            let first = before[share.turn] + share.start;
            turns[share.turn].first_deep.saturating_sub(first).min(share.len())
        };
        // What is reported of rows is reported of all layers.
        if shares.iter().all(|share| shallow(share) == 0) || turns.iter().any(|turn| turn.trace) {
            return 0;
        }
        // All but the last of those that are shallow are so as a whole.
        shares.sort_by_key(|share| (shallow(share) < share.len(), Reverse(shallow(share))));
        let whole = shares.iter().take_while(|share| shallow(share) == share.len()).count();
        let count = shares.iter().take(whole + 1).map(shallow).sum::<usize>();
        let rows = shares.iter().map(Share::len).sum::<usize>();
        let count =
            if count < rows { count.min(rows.saturating_sub(FEWEST_DEEP)) / GRID * GRID } else { count };
        if count < FEWEST_SHALLOW { 0 } else { count }
    }

    /// Notes which layers have keys of a step's rows, of which the first `shallow` stopped at the cut.
    pub(super) fn note_keys(
        &self,
        turns: &mut [Turn<'_>],
        before: &[usize],
        shares: &[Share],
        mut shallow: usize,
    ) {
        let Some(narrow) = self.inner.narrow else { return };
        let pool = &mut self.inner.cache().pool;
        for share in shares {
            let (turn, first) = (&mut turns[share.turn], before[share.turn]);
            let state = &mut turn.session.state;
            if shallow > 0 {
                state.set_sound_from(turn.first_deep + narrow.ramp);
            }
            shallow = shallow.saturating_sub(share.len());
            state.wrote_keys(first + share.start..first + share.end, pool);
        }
    }
}
