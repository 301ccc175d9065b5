//! What is asked of a scheduler, and what comes back.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::constrain::Constraint;
use crate::error::EngineError;
use crate::generate::{Params, StopReason};
use crate::residency::Traffic;
use crate::sampling::Sampled;

/// One request for tokens.
pub struct Job {
    /// The prompt, at least one token and fewer than the context.
    pub prompt: Vec<u32>,
    /// How to generate.
    pub params: Params,
    /// What is wanted in place of tokens.
    pub embed: Option<Pooling>,
    /// What narrows the choice of tokens.
    pub constraint: Option<Box<dyn Constraint>>,
    /// The slot that has to run it; `None` is any.
    pub slot: Option<usize>,
    /// Whether positions that are already computed may be used.
    pub reuse: bool,
    /// Shown in [`SlotStatus`](super::SlotStatus) while the job runs and after it; the scheduler does not look at it.
    pub tag: Option<Arc<dyn Any + Send + Sync>>,
    /// Where events go.
    pub sink: Box<dyn Sink>,
}

impl Job {
    /// A job that may use everything that is known of its prompt, in any slot.
    pub fn new(prompt: Vec<u32>, params: Params, sink: Box<dyn Sink>) -> Self {
        Self { prompt, params, embed: None, constraint: None, slot: None, reuse: true, tag: None, sink }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("prompt", &self.prompt.len())
            .field("params", &self.params)
            .field("constraint", &self.constraint)
            .field("slot", &self.slot)
            .field("reuse", &self.reuse)
            .finish_non_exhaustive()
    }
}

/// What becomes of the hidden states of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pooling {
    /// All of them, one row a token.
    None,
    /// Their mean.
    Mean,
    /// The first token's.
    First,
    /// The last token's.
    Last,
    /// All of them, as [`Event::Rows`] while the prompt is computed: none is kept.
    Parts,
}

/// Takes the events of one job. Called on the scheduler's thread, so neither method may block.
pub trait Sink: Send {
    /// Whether there is room for more events, and anyone to read them. Asked before every step, and before every further token
    /// of a step: a full sink pauses its job, a closed one ends it.
    fn state(&self) -> SinkState;

    /// Takes one event. Between two questions there are at most three: a part of its prompt, a token and the end.
    fn send(&mut self, event: Event);
}

/// What a [`Sink`] can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SinkState {
    /// It can take at least three more events.
    Open,
    /// Its reader is slow.
    Full,
    /// Its reader is gone.
    Closed,
}

/// What happens to a job, in this order: `Started`, `Prompt` and perhaps `Rows` after each part of the prompt, `Token`s or an `Embedding`,
/// and one of `Done` and `Failed`.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A slot has taken the job.
    Started {
        /// The slot.
        slot: usize,
        /// Prompt tokens that need not be computed.
        cached: usize,
    },
    /// A part of the prompt is computed.
    Prompt(Progress),
    /// Hidden states of a part of the prompt, with [`Pooling::Parts`]. A job that had to give its memory to others computes some
    /// rows twice, to the same bits.
    Rows {
        /// Position of the first.
        first: usize,
        /// One row of the model's width after the other.
        rows: Vec<f32>,
    },
    /// A token was generated.
    Token(Token),
    /// The hidden states of the prompt: one row of the model's width, or one for every token.
    Embedding(Vec<f32>),
    /// The generation has ended.
    Done(Outcome),
    /// The job could not go on.
    Failed(EngineError),
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Prompt tokens that were known already.
    pub cached: usize,
    /// Prompt tokens computed so far.
    pub prompt: usize,
    /// From the start in a slot to the first token, or until now.
    pub prompt_time: Duration,
    /// What the steps of the job have done where [experts are on two sides](crate::Engine::traffic). Rows of other jobs in
    /// these steps are part of it.
    pub traffic: Option<Traffic>,
    /// Tokens generated.
    pub generated: usize,
    /// Since the first token.
    pub generate_time: Duration,
    /// Tokens that were guessed and checked; see [`Params::drafts`].
    pub drafted: usize,
    /// Those that were right.
    pub accepted: usize,
}

impl Progress {
    /// Adds what a step did.
    pub(super) fn add(&mut self, step: &Traffic) {
        self.traffic = Some(self.traffic.map_or(*step, |earlier| step.after(&earlier)));
    }
}

/// A generated token.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Token {
    /// The token, with probabilities where [`SamplingParams::n_probs`](crate::sampling::SamplingParams) asks for them.
    pub sampled: Sampled,
    /// Text that is certain with this token: empty inside a character and inside what may become a stop text.
    pub text: String,
    /// How far the job is with this token.
    pub progress: Progress,
}

/// How a generation ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Why.
    pub reason: StopReason,
    /// Text that was held back until now.
    pub text: String,
    /// Which of [`Params::stop`] appeared.
    pub stop: Option<usize>,
    /// How far the job came.
    pub progress: Progress,
    /// Tokens of prompt and answer that the slot holds.
    pub held: usize,
    /// The seed that was used.
    pub seed: u32,
}
