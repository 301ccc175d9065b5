//! What callers send to the scheduler's thread.

use std::fmt;

use super::run::Run;
use crate::error::EngineError;
use crate::state::Snapshot;

pub(super) enum Command {
    Job(Box<Run>),
    Slot(usize, SlotCommand),
}

/// What to do with an idle slot's tokens. The caller's function gets the answer, on the scheduler's thread.
pub(super) enum SlotCommand {
    Save(Answer<Snapshot>),
    Restore(Box<Snapshot>, Answer<usize>),
    Erase(Answer<usize>),
}

pub(super) type Answer<T> = Box<dyn FnOnce(Result<T, EngineError>) + Send>;

impl SlotCommand {
    pub(super) fn refuse(self, error: EngineError) {
        match self {
            Self::Save(answer) => answer(Err(error)),
            Self::Restore(_, answer) | Self::Erase(answer) => answer(Err(error)),
        }
    }
}

impl fmt::Debug for SlotCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Save(_) => "Save",
            Self::Restore(..) => "Restore",
            Self::Erase(_) => "Erase",
        })
    }
}
