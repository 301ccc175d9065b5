//! What residency was good for.

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stats {
    /// Pairs of a decoded row and an expert that it chose.
    pub(crate) chosen: u64,
    /// Those of them whose expert had a slot.
    pub(crate) on_card: u64,
    /// Moves that were started.
    pub(crate) moves: u64,
    /// What they copy.
    pub(crate) moved_bytes: u64,
}
