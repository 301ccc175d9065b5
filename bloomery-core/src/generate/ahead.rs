//! What a generation runs ahead of what is certain: guesses, and how far they have been walked.

use std::time::{Duration, Instant};

use super::Generation;
use crate::draft::{Drafter, Drafts, Step};
use crate::engine::{Engine, Guess, Logits};
use crate::error::EngineError;
use crate::session::Session;

/// The rows of the last step.
#[derive(Debug)]
pub(super) struct Ahead {
    drafter: Option<Drafter>,
    /// What the rows after the first have.
    guesses: Vec<u32>,
    /// The row that says what comes next; `None` when a step has to be run for that.
    row: Option<usize>,
    /// Guesses that were right.
    right: usize,
    /// What the step took, choices included; `None` for the prompt's.
    time: Option<Duration>,
    /// What the block took to guess.
    drafting: Duration,
}

impl Ahead {
    /// Begins with the last row of a prompt.
    pub(super) fn new(engine: &Engine, drafts: &Drafts, past: &[u32]) -> Self {
        let drafter = Drafter::new(drafts, engine.most_guesses(), past);
        let drafting = Duration::ZERO;
        Self { drafter, guesses: Vec::new(), row: Some(0), right: 0, time: None, drafting }
    }

    /// The row to choose from, and how many there are.
    pub(super) fn row(&self) -> Option<(usize, usize)> {
        self.row.map(|row| (row, self.guesses.len() + 1))
    }

    /// Adds to what the step took.
    pub(super) fn spent(&mut self, time: Duration) {
        self.time = self.time.map(|sum| sum + time);
    }

    /// Learns from the step that is over.
    fn learn(&mut self, engine: &Engine) {
        let (Some(drafter), Some(time)) = (&mut self.drafter, self.time.take()) else { return };
        let drafting = std::mem::take(&mut self.drafting).as_secs_f64();
        let (seconds, guessed) = (time.as_secs_f64(), self.guesses.len());
        let mut price = engine.inner.price();
        price.measured(1 + guessed, seconds);
        drafter.settle(&price, Step { streams: 1, guessed, seconds, drafting }, (guessed, self.right));
    }

    /// Guesses at most `room` tokens that are worth a check, to be run after the newest.
    fn guess(
        &mut self,
        session: &mut Session,
        room: usize,
        tokens: &mut Vec<u32>,
    ) -> Result<(), EngineError> {
        let engine = session.engine.clone();
        self.learn(&engine);
        let Some(drafter) = &mut self.drafter else { return Ok(()) };
        drafter.propose(room);
        let length = engine.inner.price().lengths(1, &[drafter.offer()], room).pop().unwrap_or(0);
        let wants = drafter.wants(length);
        if let (Some(&newest), 1..) = (tokens.first(), wants) {
            let start = Instant::now();
            let guesses = engine.guess(&mut [Guess::new(session, newest, wants)])?;
            drafter.fill(guesses.first().map_or(&[], Vec::as_slice));
            self.drafting = start.elapsed();
            engine.inner.price().passed(wants, self.drafting.as_secs_f64());
        }
        tokens.extend(drafter.guesses(length));
        Ok(())
    }

    /// Begins with the first row of a step.
    fn begin(&mut self, guesses: &[u32]) {
        self.guesses.clear();
        self.guesses.extend_from_slice(guesses);
        (self.row, self.right, self.time) = (Some(0), 0, Some(Duration::ZERO));
    }
}

impl Generation<'_> {
    /// Runs the newest token and what is guessed to follow it. Returns the first row and how many there are.
    pub(super) fn check(&mut self) -> Result<(usize, usize), EngineError> {
        self.session.settle();
        let mut tokens: Vec<u32> = self.session.unfed.into_iter().collect();
        let engine = &self.session.engine;
        let left = (self.limit - self.timings.generated).min(self.session.room()).min(engine.step_rows());
        let room = if self.session.owes() { 0 } else { engine.guess_room(1).min(left - 1) };
        self.ahead.guess(self.session, room, &mut tokens)?;
        let mut result = self.run(&tokens);
        if matches!(result, Err(EngineError::PoolExhausted { .. })) && tokens.len() > 1 {
            // Guesses are worth no memory that the text itself needs.
            tokens.truncate(1);
            result = self.run(&tokens);
        }
        result?;
        self.timings.drafted += tokens.len() - 1;
        self.session.ahead = tokens.len() - 1;
        self.ahead.begin(&tokens[1..]);
        Ok((0, tokens.len()))
    }

    fn run(&mut self, tokens: &[u32]) -> Result<(), EngineError> {
        let needs = self.chooser.needs();
        self.readout = match tokens.len() {
            1 => self.session.feed((tokens, &[]), Logits::Last, |turn| turn.needing(needs))?,
            _ => self.session.feed((tokens, &[]), Logits::All, |turn| turn.checking())?,
        };
        Ok(())
    }

    /// Takes in the token that was chosen from the current row.
    pub(super) fn take(&mut self, token: u32) {
        self.session.unfed = Some(token);
        let ahead = &mut self.ahead;
        if let Some(drafter) = &mut ahead.drafter {
            drafter.push(token);
        }
        let Some(row) = ahead.row.take() else { return };
        if ahead.guesses.get(row) == Some(&token) {
            (ahead.row, ahead.right) = (Some(row + 1), ahead.right + 1);
            self.timings.accepted += 1;
        }
    }
}
