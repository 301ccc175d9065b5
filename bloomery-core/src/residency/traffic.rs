//! What an engine tells of its experts.

use std::time::Duration;

use crate::units::Bytes;

/// Where the experts of a model are that are not all on its card, and what has travelled. Counts, bytes and times are sums:
/// since the start, or between two looks by [`since`](Self::since).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// The card that has the others.
    pub card: usize,
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
    /// What has been added since an `earlier` look; what is no sum is as it is now.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bloomery_core::Error> {
    /// # let engine = bloomery_core::Engine::builder("model.gguf").plan()?.load(|_| {})?;
    /// let before = engine.traffic()?;
    /// engine.session()?.generate("Once upon a time", &engine.default_params())?.try_for_each(|piece| piece.map(drop))?;
    /// if let (Some(before), Some(now)) = (before, engine.traffic()?) {
    ///     println!("{} copied to the card", now.since(&before).copied);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            chosen: self.chosen.saturating_sub(earlier.chosen),
            on_card: self.on_card.saturating_sub(earlier.on_card),
            moves: self.moves.saturating_sub(earlier.moves),
            copied: Bytes(self.copied.0.saturating_sub(earlier.copied.0)),
            host_read: Bytes(self.host_read.0.saturating_sub(earlier.host_read.0)),
            host_time: self.host_time.saturating_sub(earlier.host_time),
            wait_time: self.wait_time.saturating_sub(earlier.wait_time),
            streamed_steps: self.streamed_steps.saturating_sub(earlier.streamed_steps),
            served_steps: self.served_steps.saturating_sub(earlier.served_steps),
            ..*self
        }
    }

    /// Adds the sums of `earlier` to those of what came later.
    pub(crate) fn after(&self, earlier: &Self) -> Self {
        Self {
            chosen: self.chosen + earlier.chosen,
            on_card: self.on_card + earlier.on_card,
            moves: self.moves + earlier.moves,
            copied: Bytes(self.copied.0 + earlier.copied.0),
            host_read: Bytes(self.host_read.0 + earlier.host_read.0),
            host_time: self.host_time + earlier.host_time,
            wait_time: self.wait_time + earlier.wait_time,
            streamed_steps: self.streamed_steps + earlier.streamed_steps,
            served_steps: self.served_steps + earlier.served_steps,
            ..*self
        }
    }

    /// Share of the choices of decoded rows that found their expert on the card; 1 before the first.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        if self.chosen == 0 { 1.0 } else { self.on_card as f64 / self.chosen as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_looks_differ_by_what_was_added() {
        let earlier = Traffic { slots: 4, chosen: 80, on_card: 20, copied: Bytes(5), ..Traffic::default() };
        let added = Traffic {
            slots: 6,
            chosen: 16,
            on_card: 12,
            moves: 1,
            copied: Bytes(7),
            host_read: Bytes(9),
            host_time: Duration::from_millis(3),
            wait_time: Duration::from_millis(2),
            streamed_steps: 1,
            served_steps: 2,
            link_rate: 2e10,
            ..Traffic::default()
        };
        let now = added.after(&earlier);
        assert_eq!((now.slots, now.chosen, now.link_rate), (6, 96, 2e10));
        assert_eq!(now.since(&earlier), added);
        assert_eq!(now.since(&earlier).hit_rate(), 0.75);
        assert_eq!(now.since(&now).hit_rate(), 1.0);
    }
}
