//! Guesses by the model's own block.

use std::cmp::Reverse;

use super::{Engine, Readout};
use crate::backend::{Answer, Backend, Batch, Readback};
use crate::error::EngineError;
use crate::session::Session;

/// A session that tokens are guessed for.
pub(crate) struct Guess<'a> {
    session: &'a mut Session,
    /// The newest token and what is guessed to follow it.
    tokens: Vec<u32>,
    most: usize,
    /// Positions of the session.
    len: usize,
}

impl<'a> Guess<'a> {
    /// At most `most` tokens after `newest`, which the session has not run yet.
    pub(crate) fn new(session: &'a mut Session, newest: u32, most: usize) -> Self {
        Self { session, tokens: vec![newest], most, len: 0 }
    }
}

impl Engine {
    /// Whether the model has a block that guesses, and its device runs it.
    pub(crate) fn has_block(&self) -> bool {
        self.inner.has_block
    }

    /// Has the model's block guess, one token of all sessions in a pass, and returns the guesses. Sessions stay as they are; where
    /// there is no room for what they would grow by, nothing is guessed.
    pub(crate) fn guess(&self, guesses: &mut [Guess<'_>]) -> Result<Vec<Vec<u32>>, EngineError> {
        let mut backend = self.inner.backend()?;
        for guess in guesses.iter_mut() {
            guess.session.settle();
            let state = &mut guess.session.state;
            guess.len = state.len();
            let room = vec![guess.tokens[0]; guess.most];
            // The block's keys and values of a state that is owed are not there.
            if !state.owed().is_empty() || !self.inner.cache().grow(state, &room, backend.as_mut()) {
                guess.most = 0;
            }
        }
        // Rows of a later pass are the first of the one before.
        let mut order: Vec<&mut Guess<'_>> = guesses.iter_mut().collect();
        order.sort_by_key(|guess| Reverse(guess.most));
        let result = order.chunks_mut(self.step_rows()).try_for_each(|order| {
            (0..order[0].most).try_for_each(|pass| {
                let count = order.iter().take_while(|guess| guess.most > pass).count();
                self.guess_next(backend.as_mut(), &mut order[..count], pass)
            })
        });
        let mut cache = self.inner.cache();
        for guess in guesses.iter_mut() {
            guess.session.state.truncate(guess.len, &mut cache.pool);
        }
        result.map(|()| guesses.iter_mut().map(|guess| guess.tokens.split_off(1)).collect())
    }

    fn guess_next(
        &self,
        backend: &mut dyn Backend,
        guesses: &mut [&mut Guess<'_>],
        pass: usize,
    ) -> Result<(), EngineError> {
        let tokens: Vec<u32> = guesses.iter().map(|guess| guess.tokens[pass]).collect();
        let positions: Vec<u32> = guesses.iter().map(|guess| (guess.len + pass) as u32).collect();
        let rows: Vec<usize> = (0..guesses.len()).collect();
        let pages: Vec<&[u32]> = guesses.iter().map(|guess| guess.session.state.pages()).collect();
        let states: Vec<_> = guesses
            .iter()
            .map(|guess| guess.session.state.known().last().map(|known| known.state.id()))
            .collect();
        let batch = Batch {
            tokens: &tokens,
            positions: &positions,
            sequences: &rows,
            before: &[],
            following: &[],
            pages: &pages,
            states: &states,
            saves: &[],
            outputs: &rows,
            want: Readback::Top(1),
            trace: None,
            stages: None,
        };
        let best: Vec<u32> = match backend.guess(batch, pass > 0)? {
            Answer::Top { k, ids, .. } => ids.iter().step_by(k).copied().collect(),
            Answer::Rows(logits) => logits.chunks_exact(self.inner.model.vocab).map(Readout::best).collect(),
        };
        for (guess, token) in guesses.iter_mut().zip(best) {
            guess.tokens.push(token);
        }
        Ok(())
    }
}
