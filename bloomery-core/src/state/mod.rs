//! What a sequence remembers: its tokens, the pages of key/value cache that hold them, and recurrent states.

mod checkpoints;
mod pages;
mod recurrent;
mod sequence;
mod slots;
mod snapshot;

pub(crate) use pages::{PAGE, PageId, PagePool};
pub(crate) use recurrent::{Keep, Known};
pub(crate) use sequence::SequenceState;
pub(crate) use slots::{Kept, StatePool, StateRef};
pub use snapshot::Snapshot;
pub(crate) use snapshot::{SavedState, Skipped};

/// A recurrent state, the same in all layers that have one.
pub(crate) type StateId = u32;
