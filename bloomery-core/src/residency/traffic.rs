//! What an engine tells of its experts.

use std::time::Duration;

use crate::units::Bytes;

/// Where the experts of a model are that are not all on its card, and what has travelled. Counts are sums since the start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// Experts of all layers.
    pub experts: usize,
    /// Places on the card where experts stay from step to step.
    pub slots: usize,
    /// Pairs of a decoded row and an expert that it chose.
    pub chosen: u64,
    /// Those of them whose expert was on the card.
    pub on_card: u64,
    /// Experts that moved to the card to stay.
    pub moves: u64,
    /// Everything that was copied to the card: for moves, and for prompts that stream.
    pub copied: Bytes,
    /// What the host read of its experts, each once for all rows of a step.
    pub host_read: Bytes,
    /// Time the host computed.
    pub host_time: Duration,
    /// Time the host waited for the card to ask.
    pub wait_time: Duration,
    /// Steps whose missing experts came to the card.
    pub streamed_steps: u64,
    /// Steps whose missing experts the host computed.
    pub served_steps: u64,
    /// Most rows of a step that the host serves: from there on, bringing the experts is faster. Measured at the start.
    pub served_rows: usize,
    /// Bytes a second from the host into slots, measured at the start.
    pub link_rate: f64,
    /// Bytes a second of experts that the host computes with, measured at the start.
    pub host_rate: f64,
}

impl Traffic {
    /// Share of the choices of decoded rows that found their expert on the card; 1 before the first.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        if self.chosen == 0 { 1.0 } else { self.on_card as f64 / self.chosen as f64 }
    }
}
