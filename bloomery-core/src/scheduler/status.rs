//! What a scheduler is doing, and how much it has done.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Progress;
use crate::draft::MOST_TOKENS;

/// A snapshot, taken after the last step.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Status {
    /// All slots, by id.
    pub slots: Vec<SlotStatus>,
    /// Jobs that wait for a slot.
    pub waiting: usize,
    /// Sums since the start.
    pub counters: Counters,
    /// What has travelled since the engine's start, where [experts are on two sides](crate::Engine::traffic).
    pub traffic: Option<crate::residency::Traffic>,
    /// Why no job can run any more.
    pub failure: Option<String>,
}

impl Status {
    /// Slots that run a job.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.slots.iter().filter(|slot| slot.busy).count()
    }
}

/// One slot.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SlotStatus {
    /// Whether it runs a job.
    pub busy: bool,
    /// The job's number, counted from 0; that of the last job in an idle slot.
    pub task: Option<u64>,
    /// Tokens of the job's prompt.
    pub prompt: usize,
    /// How far the job is.
    pub progress: Progress,
    /// Tokens it may still generate; `None` where only the context limits it.
    pub remaining: Option<usize>,
    /// Whether its text has a line break.
    pub new_line: bool,
    /// [`Job::tag`](super::Job::tag).
    pub tag: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for SlotStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotStatus")
            .field("busy", &self.busy)
            .field("task", &self.task)
            .field("prompt", &self.prompt)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

/// Sums over all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Jobs that ended, however they did.
    pub jobs: u64,
    /// Jobs whose reader went away.
    pub cancelled: u64,
    /// Jobs that gave their memory back to others and went on later.
    pub preempted: u64,
    /// Prompt tokens computed.
    pub prompt_tokens: u64,
    /// Prompt tokens that were known already.
    pub cached_tokens: u64,
    /// Time of prompts, summed over jobs.
    pub prompt_time: Duration,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Time of generations, summed over jobs.
    pub generate_time: Duration,
    /// Guesses checked, one for a job in a step.
    pub drafts: u64,
    /// Tokens of them.
    pub drafted_tokens: u64,
    /// Tokens of them that were right.
    pub accepted_tokens: u64,
    /// Of these, how many came first in their guess, second, and so on.
    pub accepted_at: [u64; MOST_TOKENS],
    /// Steps run.
    pub steps: u64,
    /// Jobs with work, summed over steps.
    pub busy_slots: u64,
    /// Most tokens that a slot has held.
    pub most_tokens: u64,
    /// Time inside the engine.
    pub engine_time: Duration,
    /// Time of the scheduler itself, sampling included.
    pub own_time: Duration,
}
