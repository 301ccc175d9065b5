//! Many jobs on one engine: all that can go on share every step.
//!
//! A [`Scheduler`] has a fixed number of slots. Each runs one job: its prompt in parts, between the steps of jobs that
//! already generate, then one token a step together with all others. Jobs beyond the slots wait in order of arrival. What
//! a job computes stays known in the engine's prefix tree, so the next prompt that begins alike starts where they part.
//!
//! ```
//! use std::sync::mpsc;
//! use bloomery_core::scheduler::{Event, Job, Scheduler, SchedulerOptions, Sink, SinkState};
//! use bloomery_core::{Engine, ModelSource, Params};
//!
//! struct Channel(mpsc::Sender<Event>);
//! impl Sink for Channel {
//!     fn state(&self) -> SinkState { SinkState::Open }
//!     fn send(&mut self, event: Event) { let _ = self.0.send(event); }
//! }
//!
//! let engine = Engine::builder(ModelSource::demo()).sessions(2).plan()?.load(|_| {})?;
//! let scheduler = Scheduler::new(engine, SchedulerOptions { slots: 2, ..Default::default() })?;
//! let (sender, events) = mpsc::channel();
//! let params = Params { max_tokens: Some(4), ..Params::greedy() };
//! scheduler.submit(Job::new(vec![2638, 711, 258, 561], params, Box::new(Channel(sender))))?;
//! let tokens = events.iter().filter(|event| matches!(event, Event::Token(_))).count();
//! assert_eq!(tokens, 4);
//! # Ok::<(), bloomery_core::Error>(())
//! ```

mod command;
mod embedding;
mod job;
mod pace;
mod run;
mod slot;
mod status;
#[cfg(test)]
mod tests;
mod worker;

pub use job::{Event, Job, Outcome, Pooling, Progress, Sink, SinkState, Token};
pub use status::{Counters, SlotStatus, Status};

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use command::{Answer, Command, SlotCommand};
use run::{Place, Run};
use worker::Worker;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::state::Snapshot;

/// How a scheduler divides an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// Jobs that run at the same time; at most the sessions that the engine was planned for.
    pub slots: usize,
    /// Jobs that may wait for a slot.
    pub queue_depth: usize,
}

impl Default for SchedulerOptions {
    /// One slot, 63 waiting jobs.
    fn default() -> Self {
        Self { slots: 1, queue_depth: 63 }
    }
}

/// Runs jobs on one thread of its own. Clones are handles to the same scheduler; it ends with the last of them, and jobs
/// that still run then fail with [`EngineError::Stopped`].
#[derive(Debug, Clone)]
pub struct Scheduler {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    options: SchedulerOptions,
    status: Arc<Mutex<Status>>,
    /// Jobs that are not over.
    jobs: Arc<AtomicUsize>,
    tasks: AtomicU64,
}

impl Scheduler {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`EngineError::TooManySessions`] for more slots than the engine has sessions, [`EngineError::Stopped`] where no
    /// thread can be started, [`EngineError::Poisoned`].
    pub fn new(engine: Engine, options: SchedulerOptions) -> Result<Self, EngineError> {
        let limit = engine.max_sessions();
        if options.slots > limit || options.slots == 0 {
            return Err(EngineError::TooManySessions { limit });
        }
        let slots = vec![SlotStatus::default(); options.slots];
        let traffic = engine.traffic()?;
        let status = Arc::new(Mutex::new(Status { slots, traffic, ..Status::default() }));
        let (commands, receiver) = mpsc::channel();
        let worker = Worker::new(engine.clone(), options.slots, Arc::clone(&status));
        let gone = Gone(Arc::clone(&status));
        thread::Builder::new()
            .name("bloomery-steps".to_owned())
            .spawn(move || {
                let _gone = gone;
                worker.run(&receiver);
            })
            .map_err(|_| EngineError::Stopped)?;
        let (jobs, tasks) = (Arc::new(AtomicUsize::new(0)), AtomicU64::new(0));
        Ok(Self { shared: Arc::new(Shared { engine, options, status, jobs, tasks }), commands })
    }

    /// The engine that runs the jobs.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// What it was started with.
    #[must_use]
    pub fn options(&self) -> SchedulerOptions {
        self.shared.options
    }

    /// Queues a job and returns its number. Does not wait: everything else arrives at the job's sink.
    ///
    /// # Errors
    /// What can be known at once: [`EngineError::NoTokens`], [`EngineError::ContextFull`] for a prompt that leaves no room
    /// for a token, [`EngineError::UnknownToken`], [`EngineError::Sampling`], [`EngineError::QueueFull`] when
    /// [`SchedulerOptions::queue_depth`] jobs wait already, [`EngineError::NoSuchSlot`], [`EngineError::Stopped`].
    pub fn submit(&self, job: Job) -> Result<u64, EngineError> {
        let SchedulerOptions { slots, queue_depth } = self.shared.options;
        let (engine, context) = (&self.shared.engine, self.shared.engine.context());
        if job.prompt.is_empty() {
            return Err(EngineError::NoTokens { what: "a job" });
        }
        // An answer needs room for a token.
        let adding = job.prompt.len() + usize::from(job.embed.is_none());
        if adding > context {
            return Err(EngineError::ContextFull { len: 0, adding, context });
        }
        let vocab = engine.model().vocab;
        if let Some(&id) = job.prompt.iter().find(|&&id| id as usize >= vocab) {
            return Err(EngineError::UnknownToken { id, vocab });
        }
        if let Some(slot) = job.slot.filter(|&slot| slot >= slots) {
            return Err(EngineError::NoSuchSlot { slot, slots });
        }
        let place = Place::reserve(&self.shared.jobs, slots + queue_depth)
            .ok_or(EngineError::QueueFull { running: slots, waiting: queue_depth })?;
        let task = self.shared.tasks.fetch_add(1, Ordering::Relaxed);
        let run = Run::new(engine, task, job, place)?;
        self.commands.send(Command::Job(Box::new(run))).map_err(|_| EngineError::Stopped)?;
        Ok(task)
    }

    /// What it is doing, as of the last step.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Copies what an idle slot holds; waits for its job to end. `answer` is called on the scheduler's thread.
    pub fn save(&self, slot: usize, answer: impl FnOnce(Result<Snapshot, EngineError>) + Send + 'static) {
        self.command(slot, SlotCommand::Save(Box::new(answer)));
    }

    /// Fills a slot with a saved state and answers with its tokens' number. On error the slot is empty.
    pub fn restore(
        &self,
        slot: usize,
        snapshot: Snapshot,
        answer: impl FnOnce(Result<usize, EngineError>) + Send + 'static,
    ) {
        self.command(slot, SlotCommand::Restore(Box::new(snapshot), Box::new(answer) as Answer<usize>));
    }

    /// Forgets what a slot holds, but for what other slots share, and answers with its tokens' number.
    pub fn erase(&self, slot: usize, answer: impl FnOnce(Result<usize, EngineError>) + Send + 'static) {
        self.command(slot, SlotCommand::Erase(Box::new(answer)));
    }

    fn command(&self, slot: usize, command: SlotCommand) {
        if let Err(mpsc::SendError(Command::Slot(_, command))) =
            self.commands.send(Command::Slot(slot, command))
        {
            command.refuse(EngineError::Stopped);
        }
    }
}

/// Says so in the status when the thread is gone, also by a panic.
struct Gone(Arc<Mutex<Status>>);

impl Drop for Gone {
    fn drop(&mut self) {
        let mut status = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        status.failure.get_or_insert_with(|| EngineError::Stopped.to_string());
    }
}
