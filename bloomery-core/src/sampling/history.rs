//! The last tokens, and how often each occurs among them.

use std::collections::{HashMap, VecDeque};

/// A window for penalties (with counts) inside a window for everything that looks back.
#[derive(Debug, Clone)]
pub(super) struct History {
    ring: VecDeque<u32>,
    counts: HashMap<u32, u32>,
    counted: usize,
    capacity: usize,
}

impl History {
    /// Counts the last `counted` tokens, remembers the last `max(counted, remembered)`.
    pub(super) fn new(counted: usize, remembered: usize) -> Self {
        Self { ring: VecDeque::new(), counts: HashMap::new(), counted, capacity: counted.max(remembered) }
    }

    pub(super) fn push(&mut self, id: u32) {
        if self.capacity == 0 {
            return;
        }
        self.ring.push_back(id);
        if self.counted > 0 {
            *self.counts.entry(id).or_insert(0) += 1;
        }
        if self.counted > 0 && self.ring.len() > self.counted {
            let old = self.ring[self.ring.len() - 1 - self.counted];
            if let Some(count) = self.counts.get_mut(&old) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&old);
                }
            }
        }
        if self.ring.len() > self.capacity {
            self.ring.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.ring.clear();
        self.counts.clear();
    }

    /// Occurrences in the counted window, tokens that occur only.
    pub(super) fn counts(&self) -> &HashMap<u32, u32> {
        &self.counts
    }

    /// Newest first.
    pub(super) fn recent(&self, n: usize) -> impl Iterator<Item = u32> {
        self.ring.iter().rev().take(n).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_equal_a_recount(counted in 0usize..9, remembered in 0usize..9,
                                  ids in prop::collection::vec(0u32..5, 0..60)) {
            let mut history = History::new(counted, remembered);
            for end in 1..=ids.len() {
                history.push(ids[end - 1]);
                let mut naive = HashMap::new();
                for &id in ids[..end].iter().rev().take(counted) {
                    *naive.entry(id).or_insert(0u32) += 1;
                }
                prop_assert_eq!(history.counts(), &naive);
                let window = counted.max(remembered);
                let recent: Vec<u32> = history.recent(usize::MAX).collect();
                let expected: Vec<u32> = ids[..end].iter().rev().take(window).copied().collect();
                prop_assert_eq!(recent, expected);
            }
        }
    }
}
