//! What the tree of prefixes has and has done.

use crate::units::Bytes;

/// What an engine remembers beyond its sessions, and what that was good for. Pages hold 64 positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PrefixStats {
    /// Pages of the pool in all.
    pub total_pages: usize,
    /// Pages of the pool that hold nothing.
    pub free_pages: usize,
    /// Pages of the pool that no session has: they hold prefixes until they are needed for something else.
    pub idle_pages: usize,
    /// Pages of the pool that hold published prefixes, whether sessions have them or not.
    pub resident_pages: usize,
    /// Pages kept in host memory after they had to leave the pool.
    pub parked_pages: usize,
    /// Bytes of the parked pages and states.
    pub parked_bytes: Bytes,
    /// Most bytes that may be parked.
    pub budget: Bytes,
    /// Tokens that [`Session::adopt`](crate::Session::adopt) found here and that the session itself did not have.
    pub served_tokens: u64,
    /// Pages that had to leave the pool, parked or not.
    pub evicted: u64,
    /// Parked pages that were brought back.
    pub restored: u64,
    /// Pages that were forgotten for lack of room.
    pub dropped: u64,
    /// Slots for recurrent states; none where the model has no such states. All numbers of states are 0 then.
    pub total_states: usize,
    /// Slots that hold nothing.
    pub free_states: usize,
    /// States of published prefixes that are in slots.
    pub resident_states: usize,
    /// Those kept in host memory after they had to leave their slots.
    pub parked_states: usize,
    /// Parked states that were brought back.
    pub restored_states: u64,
    /// States of published prefixes that were forgotten for lack of room.
    pub dropped_states: u64,
}
