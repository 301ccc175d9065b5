//! What a sequence remembers: its tokens, and the pages of key/value cache that hold them.

mod pages;
mod sequence;
mod snapshot;

pub(crate) use pages::{PAGE, PageId, PagePool};
pub(crate) use sequence::SequenceState;
pub use snapshot::Snapshot;

/// A recurrent state, the same in all layers that have one.
pub(crate) type StateId = u32;
