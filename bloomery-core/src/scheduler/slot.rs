//! A place for one running job, and what the last one left behind.

use super::command::SlotCommand;
use super::job::SinkState;
use super::run::Run;
use super::status::SlotStatus;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::state::Snapshot;

#[derive(Default)]
pub(super) struct Slot {
    pub(super) run: Option<Run>,
    /// The last job's prompt and answer. Their positions are in the engine's prefix tree as long as there is room.
    pub(super) tokens: Vec<u32>,
    /// Counts up with every job that ends in any slot.
    pub(super) idle_since: u64,
    last: SlotStatus,
}

impl Slot {
    pub(super) fn can_run(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.sink_state() == SinkState::Open)
    }

    pub(super) fn is_generating(&self) -> bool {
        self.run.as_ref().is_some_and(Run::is_generating)
    }

    pub(super) fn task(&self) -> u64 {
        self.run.as_ref().map_or(u64::MAX, |run| run.task)
    }

    pub(super) fn pending(&self) -> usize {
        self.run.as_ref().map_or(0, Run::pending)
    }

    /// Ends the slot's job; what it computed stays known.
    pub(super) fn release(&mut self, now: u64) -> Option<Run> {
        let mut run = self.run.take()?;
        run.publish();
        run.show(&mut self.last);
        self.last.busy = false;
        self.idle_since = now;
        self.tokens.clear();
        self.tokens.extend_from_slice(&run.tokens[..run.known()]);
        run.session = None;
        Some(run)
    }

    /// Takes the job away together with its memory.
    pub(super) fn preempt(&mut self) -> Option<Run> {
        let mut run = self.run.take()?;
        run.publish();
        run.session = None;
        Some(run)
    }

    pub(super) fn show(&self, status: &mut SlotStatus) {
        match &self.run {
            Some(run) => run.show(status),
            None => status.clone_from(&self.last),
        }
    }

    /// Carries out a command; no job is running.
    pub(super) fn execute(&mut self, engine: &Engine, command: SlotCommand) {
        match command {
            SlotCommand::Save(answer) => answer(self.save(engine)),
            SlotCommand::Restore(snapshot, answer) => answer(self.restore(engine, &snapshot)),
            SlotCommand::Erase(answer) => answer(self.erase(engine)),
        }
    }

    fn save(&self, engine: &Engine) -> Result<Snapshot, EngineError> {
        let mut session = engine.session()?;
        session.adopt_all(&self.tokens)?;
        session.snapshot()
    }

    fn restore(&mut self, engine: &Engine, snapshot: &Snapshot) -> Result<usize, EngineError> {
        self.tokens.clear();
        let mut session = engine.session()?;
        session.restore(snapshot)?;
        session.publish();
        self.tokens.extend_from_slice(session.tokens());
        Ok(self.tokens.len())
    }

    fn erase(&mut self, engine: &Engine) -> Result<usize, EngineError> {
        engine.forget_prefix(&self.tokens);
        Ok(std::mem::take(&mut self.tokens).len())
    }
}
