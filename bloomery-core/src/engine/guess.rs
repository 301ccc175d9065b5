//! Guesses by the model's own block.

use std::cmp::Reverse;

use super::{Engine, Readout};
use crate::backend::{Answer, Backend, Batch, Readback};
use crate::def::Guessing;
use crate::draft::{MOST_ROWS, MOST_TOKENS};
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
    /// Most tokens that the model's own block guesses; none where there is no block, or its device does not run it.
    pub(crate) fn most_guesses(&self) -> usize {
        match (self.inner.has_block, &self.inner.model.draft) {
            (false, _) | (_, None) => 0,
            (_, Some(Guessing::Next(_))) => MOST_TOKENS,
            // A block is one pass, whose rows are those of a step.
            (_, Some(Guessing::Spark(spark))) if spark.width > self.step_rows() => 0,
            (_, Some(Guessing::Spark(spark))) => spark.width,
        }
    }

    /// Rows of each session in a pass that guesses, and the token of all but the first.
    fn guess_rows(&self) -> (usize, u32) {
        match &self.inner.model.draft {
            Some(Guessing::Spark(spark)) => (spark.width, spark.mask),
            Some(Guessing::Next(_)) | None => (1, 0),
        }
    }

    /// Has the model's block guess, one token of all sessions in a pass, and returns the guesses. Sessions stay as they are; where
    /// there is no room for what they would grow by, nothing is guessed.
    pub(crate) fn guess(&self, guesses: &mut [Guess<'_>]) -> Result<Vec<Vec<u32>>, EngineError> {
        let mut backend = self.inner.backend()?;
        let (width, _) = self.guess_rows();
        for guess in guesses.iter_mut() {
            guess.session.settle();
            let state = &mut guess.session.state;
            guess.len = state.len();
            guess.most = guess.most.min(self.most_guesses());
            let room = vec![guess.tokens[0]; if width > 1 { width } else { guess.most }];
            let fits = guess.len + room.len() <= self.context();
            // The block's keys and values of a state that is owed are not there.
            if !fits || !state.owed().is_empty() || !self.inner.cache().grow(state, &room, backend.as_mut()) {
                guess.most = 0;
            }
        }
        // Rows of a later pass are the first of the one before.
        let mut order: Vec<&mut Guess<'_>> = guesses.iter_mut().collect();
        order.sort_by_key(|guess| Reverse(guess.most));
        // Of blocks no more than attention takes without cutting rows into tiles, which would not see later ones.
        let most = if width > 1 { self.step_rows().min(MOST_ROWS) / width } else { self.step_rows() };
        let result = order.chunks_mut(most.max(1)).try_for_each(|order| {
            let sessions = order.iter().take_while(|guess| guess.most > 0).count();
            (0..order[0].most).try_for_each(|pass| {
                let count = order.iter().take_while(|guess| guess.most > pass).count();
                // All rows of blocks stay from pass to pass.
                let rows = if width > 1 { sessions } else { count };
                self.guess_next(backend.as_mut(), &mut order[..rows], (pass, count))
            })
        });
        let mut cache = self.inner.cache();
        for guess in guesses.iter_mut() {
            guess.session.state.truncate(guess.len, &mut cache.pool);
        }
        result.map(|()| guesses.iter_mut().map(|guess| guess.tokens.split_off(1)).collect())
    }

    /// One more token of each of the first `count` sessions.
    fn guess_next(
        &self,
        backend: &mut dyn Backend,
        guesses: &mut [&mut Guess<'_>],
        (pass, count): (usize, usize),
    ) -> Result<(), EngineError> {
        let (width, mask) = self.guess_rows();
        let (mut tokens, mut positions, mut sequences, mut outputs) = (vec![], vec![], vec![], vec![]);
        for (sequence, guess) in guesses.iter().enumerate() {
            // Of a block the row of this pass has the token before it, which is all that is new; a block of one row moves on.
            let (first, row) = if width > 1 { (guess.len, pass) } else { (guess.len + pass, 0) };
            if sequence < count {
                outputs.push(tokens.len() + row);
            }
            let newest = guess.tokens[pass.min(guess.tokens.len() - 1)];
            tokens.extend((0..width).map(|other| if other == row { newest } else { mask }));
            positions.extend((first..first + width).map(|position| position as u32));
            sequences.extend(std::iter::repeat_n(sequence, width));
        }
        let pages: Vec<&[u32]> = guesses.iter().map(|guess| guess.session.state.pages()).collect();
        let states: Vec<_> = guesses
            .iter()
            .map(|guess| guess.session.state.known().last().map(|known| known.state.id()))
            .collect();
        let batch = Batch {
            tokens: &tokens,
            positions: &positions,
            sequences: &sequences,
            before: &[],
            following: &[],
            pages: &pages,
            states: &states,
            saves: &[],
            outputs: &outputs,
            want: Readback::Top(1),
            deep: None,
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
