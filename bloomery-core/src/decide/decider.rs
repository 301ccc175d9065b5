//! The decision seat of an engine.

use std::sync::{Arc, mpsc};
use std::thread;

use super::LONGEST;
use super::answer::Decision;
use super::encode::{Prompt, encode};
use super::error::DecideError;
use super::json::Json;
use super::part;
use super::question::Question;
use super::reading::Reading;
use super::seat::Seat;
use crate::engine::{Engine, Logits, Turn};
use crate::plan::Placement;

/// Answers questions. Cloning is cheap; all methods may be called from any thread.
///
/// What happens to a request is three things, for callers that run prompts by other means:
/// [`prompt`](Self::prompt), the trunk over its tokens, and [`read`](Self::read).
/// [`decide`](Self::decide) is all of them.
#[derive(Debug, Clone)]
pub struct Decider {
    engine: Engine,
    seat: Arc<Seat>,
    longest: usize,
}

impl Engine {
    /// The decision seat.
    ///
    /// # Errors
    /// [`DecideError::NoHead`] for a model that is not made for decisions.
    ///
    /// ```
    /// use bloomery_core::decide::DecideError;
    /// use bloomery_core::{Engine, ModelSource};
    ///
    /// let engine = Engine::builder(ModelSource::demo()).plan()?.load(|_| {})?;
    /// assert!(matches!(engine.decider(), Err(DecideError::NoHead)));
    /// # Ok::<(), bloomery_core::Error>(())
    /// ```
    pub fn decider(&self) -> Result<Decider, DecideError> {
        let seat = self.inner.seat.clone().ok_or(DecideError::NoHead)?;
        Ok(Decider { longest: LONGEST.min(self.context()), engine: self.clone(), seat })
    }

    /// Answers questions about a state in one pass. As [`Decider::decide`].
    ///
    /// # Errors
    /// [`DecideError`].
    pub fn decide(&self, state: &Json, questions: &[Question]) -> Result<Decision, DecideError> {
        self.decider()?.decide(state, questions)
    }
}

impl Decider {
    /// Tokens of the longest prompt. A state that has no room in it loses its end.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Another longest prompt, of at most the engine's context. Default: 16 384 tokens, or the context.
    #[must_use]
    pub fn with_longest(self, tokens: usize) -> Self {
        Self { longest: tokens.min(self.engine.context()), ..self }
    }

    /// The engine that runs the trunk.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Makes a prompt. Special tokens that are spelled out in a text become tokens, as in the model's training.
    ///
    /// # Errors
    /// [`DecideError::Question`], or a text that cannot be tokenised.
    pub fn prompt(&self, state: &Json, questions: &[Question]) -> Result<Prompt, DecideError> {
        encode(self.engine.tokenizer(), state, questions, self.longest)
    }

    /// Reads the hidden states of a prompt: a row for every token, after the model's last norm. They may come in parts
    /// of any number of rows.
    ///
    /// # Errors
    /// [`DecideError::Rows`] for more or fewer rows than tokens, [`DecideError::NotFinite`].
    pub fn read<R: AsRef<[f32]>>(
        &self,
        prompt: &Prompt,
        hidden: impl IntoIterator<Item = R>,
    ) -> Result<Decision, DecideError> {
        let mut reading = Reading::new(&self.seat, prompt);
        for rows in hidden {
            reading.rows(rows.as_ref())?;
        }
        reading.finish()
    }

    /// Answers questions about a state: one pass over one prompt, in a session of its own, of which there can be
    /// [as many as were planned for](Engine::max_sessions). The order of questions counts, and what is asked together:
    /// answers look at each other.
    ///
    /// # Errors
    /// [`DecideError`].
    pub fn decide(&self, state: &Json, questions: &[Question]) -> Result<Decision, DecideError> {
        let prompt = self.prompt(state, questions)?;
        match self.engine.placement() {
            Placement::Card(_) => self.read_meanwhile(&prompt),
            // Where the trunk is on the CPU the head would take its threads.
            _ => self.read_between(&prompt),
        }
    }

    /// Takes in what a step brings back before the next, so that it is not kept.
    fn read_between(&self, prompt: &Prompt) -> Result<Decision, DecideError> {
        let mut reading = Reading::new(&self.seat, prompt);
        let most = self.engine.step_rows();
        self.run(prompt, &|left| left.min(most), &mut |rows| reading.rows(&rows))?;
        reading.finish()
    }

    /// Takes in what a step brings back while the next one runs.
    fn read_meanwhile(&self, prompt: &Prompt) -> Result<Decision, DecideError> {
        let most = self.engine.step_rows();
        thread::scope(|scope| {
            let (sender, parts) = mpsc::sync_channel::<Vec<f32>>(1);
            let reader = thread::Builder::new().name("bloomery-head".to_owned());
            let Ok(reader) = reader.spawn_scoped(scope, || self.read(prompt, parts)) else {
                return self.read_between(prompt);
            };
            // A reader that is gone says why.
            let send = &mut |rows| sender.send(rows).or(Ok(()));
            let ran = self.run(prompt, &|left| part::next(left, most), send);
            drop(sender);
            let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ran.and(read)
        })
    }

    /// Runs a prompt in parts, and hands out what they bring back.
    fn run(
        &self,
        prompt: &Prompt,
        part: &dyn Fn(usize) -> usize,
        take: &mut dyn FnMut(Vec<f32>) -> Result<(), DecideError>,
    ) -> Result<(), DecideError> {
        let mut session = self.engine.session()?;
        let mut left = prompt.tokens.as_slice();
        while !left.is_empty() {
            let (tokens, rest) = left.split_at(part(left.len()));
            let mut turns = [Turn::new(&mut session, tokens, Logits::All).hidden()];
            self.engine.step(&mut turns)?;
            let [turn] = turns;
            take(turn.into_readout().into_rows())?;
            left = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ModelSource;
    use std::path::PathBuf;

    #[test]
    fn reading_while_steps_run_gives_the_same_answers() {
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/data/clef/clef-bf16.gguf"].iter().collect();
        let builder = Engine::builder(ModelSource::from(path)).placement(Placement::Cpu).sessions(1);
        let engine = builder.plan().unwrap().load(|_| {}).unwrap();
        let decider = engine.decider().unwrap();
        let questions =
            [Question::noul("a", "Is it down?"), Question::score("b", "How bad?", ["low", "high"])];
        for words in [3, 700, 3000] {
            let state = Json::from("the export fails again ".repeat(words / 4 + 1).as_str());
            let prompt = decider.prompt(&state, &questions).unwrap();
            let between = decider.read_between(&prompt).unwrap();
            assert_eq!(decider.read_meanwhile(&prompt).unwrap(), between, "{} tokens", between.tokens);
            assert_eq!(engine.max_sessions(), 1, "each had the session to itself");
        }
        // What stops one of the two ends both.
        let mut prompt = decider.prompt(&Json::from("short"), &questions).unwrap();
        prompt.tokens[0] = u32::MAX;
        assert!(matches!(decider.read_meanwhile(&prompt), Err(DecideError::Engine(_))));
        let _held = engine.session().unwrap();
        assert!(matches!(decider.read_meanwhile(&prompt), Err(DecideError::Engine(_))));
    }
}
