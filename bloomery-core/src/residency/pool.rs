//! The slots of one pool, who has them and who wants them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::score::Scores;
use super::shape::PoolShape;

/// Residents, candidates and free slots. Experts are flat numbers.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) shape: PoolShape,
    /// Residents that stay, coldest first. A score is the one at the time when it was last looked at: scores only grow, so
    /// the top is the coldest as soon as its own score is up to date, and choices cost nothing here.
    coldest: BinaryHeap<Reverse<(u64, u32)>>,
    /// Chosen while elsewhere, since they were last found too cold.
    candidates: Vec<u32>,
    /// Slots that nobody has and nothing is on its way to, ascending.
    free: Vec<u32>,
    /// Copies on their way.
    pub(super) moving: usize,
}

impl Pool {
    /// A pool whose first slots have `residents`.
    pub(super) fn new(shape: PoolShape, residents: &[u32]) -> Self {
        let coldest = residents.iter().map(|flat| Reverse((0, *flat))).collect();
        let free = (residents.len()..shape.slots + shape.ring).map(|slot| slot as u32).collect();
        Self { shape, coldest, candidates: Vec::new(), free, moving: 0 }
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> &[u32] {
        &self.free
    }

    pub(super) fn want(&mut self, flat: u32) {
        self.candidates.push(flat);
    }

    /// Moves that may start now. Half of the ring stays free, for prompts to stream through.
    pub(super) fn room(&self) -> usize {
        self.shape.ring.div_ceil(2).saturating_sub(self.moving).min(self.free.len())
    }

    /// The coldest resident and its score.
    pub(super) fn coldest(&mut self, scores: &Scores) -> Option<(u64, u32)> {
        loop {
            let mut top = self.coldest.peek_mut()?;
            let Reverse((known, flat)) = *top;
            let score = scores.get(flat);
            if known == score {
                return Some((score, flat));
            }
            *top = Reverse((score, flat));
            drop(top);
        }
    }

    /// Forgets candidates that are not ahead of the coldest resident by `margin`, calling `cold` for each, and sorts the
    /// hottest `most` of the rest to the end, the very hottest last. What is asked of a candidate grows with time, so one that
    /// was too cold once is too cold until it is chosen again.
    pub(super) fn sift(&mut self, scores: &Scores, margin: u64, most: usize, mut cold: impl FnMut(u32)) {
        let Some((coldest, _)) = self.coldest(scores) else { return };
        let needed = coldest.saturating_add(margin);
        self.candidates.retain(|flat| {
            let keep = scores.get(*flat) >= needed;
            if !keep {
                cold(*flat);
            }
            keep
        });
        let hotness = |flat: &u32| (scores.get(*flat), Reverse(*flat));
        let rest = self.candidates.len().saturating_sub(most);
        if rest > 0 {
            self.candidates.select_nth_unstable_by_key(rest - 1, hotness);
        }
        self.candidates[rest..].sort_unstable_by_key(hotness);
    }

    /// How far the hottest candidate of [`sift`](Self::sift) is ahead of the coldest resident, if it is by `margin`.
    pub(super) fn gain(&mut self, scores: &Scores, margin: u64) -> Option<u64> {
        let hottest = scores.get(*self.candidates.last()?);
        let (coldest, _) = self.coldest(scores)?;
        hottest.checked_sub(coldest).filter(|gain| *gain >= margin)
    }

    /// Starts the move that [`gain`](Self::gain) spoke of: the expert that comes, the one that goes, and a free slot.
    pub(super) fn start(&mut self) -> Option<(u32, u32, u32)> {
        let (Some(comes), Some(goes)) = (self.candidates.last().copied(), self.coldest.peek_mut()) else {
            return None;
        };
        if self.free.is_empty() {
            return None;
        }
        let Reverse((_, goes)) = PeekMut::pop(goes);
        self.candidates.pop();
        self.moving += 1;
        Some((comes, goes, self.free.remove(0)))
    }

    /// Ends a move: `comes` is a resident, and `slot` is free.
    pub(super) fn finish(&mut self, comes: u32, score: u64, slot: u32) {
        self.coldest.push(Reverse((score, comes)));
        self.moving -= 1;
        let at = self.free.partition_point(|free| *free < slot);
        self.free.insert(at, slot);
    }

    /// Brings the order up to date after scores were divided.
    pub(super) fn rebase(&mut self, scores: &Scores) {
        let mut residents = std::mem::take(&mut self.coldest).into_vec();
        for Reverse((known, flat)) in &mut residents {
            *known = scores.get(*flat);
        }
        self.coldest = residents.into();
    }
}
