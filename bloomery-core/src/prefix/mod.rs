//! Reuse of what was computed before: one tree of pages, shared by all sessions of an engine.
//!
//! ```text
//! root ── [64 tokens] ── [64 tokens] ── [17 tokens]
//!                    └── [64 tokens] ── [64 tokens] ── [3 tokens]
//! ```
//!
//! A node is one page: its tokens, and the page that holds their keys and values, either in the pool or as bytes in
//! host memory (*parked*). Only full nodes have children. The tree owns its pages beside the sessions that use them,
//! so nothing is copied when a sequence comes in or goes out; a sequence that goes on from the middle of a node shares
//! its page too, and gets its own copy when it writes there.
//!
//! What holds at all times, and why it matters:
//! - No node's tokens begin another's beside it, and children are sorted by tokens. So what has most in common with a
//!   prompt is a neighbour of the place where the prompt's tokens would stand: one binary search.
//! - The parent of a node in the pool is in the pool. So leaves are evicted first, and a path comes back from its
//!   beginning on.
//!
//! In models with recurrent states a node also has *checkpoints*: states after some of its rows, in slots of the backend or
//! parked. A sequence comes out of the tree as far as there is one.

mod cache;
mod checkpoints;
mod evict;
mod node;
mod stats;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use cache::PrefixCache;
pub(crate) use checkpoints::SlotUse;
pub(crate) use node::Mark;
pub use stats::PrefixStats;
