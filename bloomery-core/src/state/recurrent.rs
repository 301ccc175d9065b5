//! The recurrent states that one sequence knows.

use super::checkpoints::{is_wanted, surplus};
use super::{StatePool, StateRef};

/// A state and how many positions it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) len: usize,
    pub(crate) state: StateRef,
    pub(crate) keep: Keep,
}

/// Why a state stays known when the sequence has gone on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It does not.
    No,
    /// The sequence may be cut there, or near. As it grows fewer of those are needed.
    Spaced,
    /// Others part from the sequence there.
    Branch,
}

/// Places of a sequence where others part from it that are remembered.
const BRANCHES: usize = 4;

/// States of a sequence's past. It goes on from the last of them, and owns that one for sure.
#[derive(Debug, Default)]
pub(crate) struct Recurrent {
    known: Vec<Known>,
    /// Positions whose state others wait for.
    branches: Vec<usize>,
}

impl Recurrent {
    pub(super) fn known(&self) -> &[Known] {
        &self.known
    }

    /// Asks for the state after `len` positions, when steps come past.
    pub(crate) fn branch_at(&mut self, len: usize) {
        if !self.branches.contains(&len) {
            if self.branches.len() == BRANCHES {
                self.branches.remove(0);
            }
            self.branches.push(len);
        }
    }

    /// Goes on in place of `other`.
    pub(crate) fn take_branches(&mut self, other: &mut Self) {
        self.branches = std::mem::take(&mut other.branches);
    }

    pub(super) fn wants(&self, len: usize, goal: usize) -> Keep {
        match is_wanted(len, goal) {
            _ if self.branches.contains(&len) => Keep::Branch,
            true => Keep::Spaced,
            false => Keep::No,
        }
    }

    /// Takes in what a step has saved, all pinned; the sequence goes on from the last.
    pub(crate) fn advance(&mut self, saved: &[Known], pool: &mut StatePool) {
        let (Some(first), Some((end, before))) = (saved.first(), saved.split_last()) else { return };
        self.unpin(pool);
        before.iter().for_each(|known| pool.unpin(known.state));
        self.known.extend_from_slice(saved);
        self.branches.retain(|&branch| branch > end.len);
        self.settle(first.len, pool);
        loop {
            let spaced = self.known.iter().filter(|known| known.keep == Keep::Spaced);
            let spaced: Vec<usize> = spaced.map(|known| known.len).collect();
            let Some(at) = surplus(&spaced, end.len) else { break };
            self.retain(pool, |known| known.len != spaced[at]);
        }
    }

    /// Takes in a state of its past that is shared with others, before any step.
    pub(crate) fn adopt(&mut self, known: Known, pool: &mut StatePool) {
        self.unpin(pool);
        pool.share(known.state);
        pool.pin(known.state);
        self.known.push(known);
    }

    /// Whether [`settle`](Self::settle) would find any.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.known.split_last().is_some_and(|(_, before)| before.iter().any(|known| known.keep == Keep::No))
    }

    /// Lets go of states before `len` that were only for the moment, but for the last.
    pub(crate) fn settle(&mut self, len: usize, pool: &mut StatePool) {
        self.retain(pool, |known| known.keep != Keep::No || known.len >= len);
    }

    fn retain(&mut self, pool: &mut StatePool, stays: impl Fn(&Known) -> bool) {
        let Some(end) = self.known.last().map(|last| last.len) else { return };
        self.known.retain(|known| {
            let stays = known.len == end || stays(known);
            if !stays {
                // The tree of prefixes may have it too.
                pool.pass(known.state);
                pool.release(known.state);
            }
            stays && pool.has(known.state)
        });
    }

    /// Goes back to the nearest known state of at most `len` positions, and returns of how many it is.
    pub(super) fn truncate(&mut self, len: usize, pool: &mut StatePool) -> usize {
        self.unpin(pool);
        while let Some(last) = self.known.last() {
            if last.len <= len && pool.has(last.state) {
                pool.pin(last.state);
                break;
            }
            pool.release(last.state);
            self.known.pop();
        }
        self.known.last().map_or(0, |last| last.len)
    }

    /// Gives the last state away, to be written over.
    pub(crate) fn give_end(&mut self, pool: &mut StatePool) -> Option<StateRef> {
        let end = self.known.pop()?;
        while self.known.pop_if(|last| !pool.has(last.state)).is_some() {}
        self.known.last().into_iter().for_each(|last| pool.pin(last.state));
        Some(end.state)
    }

    pub(super) fn fork(&self, pool: &mut StatePool) -> Self {
        let known: Vec<Known> = self.known.iter().copied().filter(|known| pool.has(known.state)).collect();
        known.iter().for_each(|known| pool.share(known.state));
        known.last().into_iter().for_each(|last| pool.pin(last.state));
        Self { known, branches: Vec::new() }
    }

    /// Replaces the state at `index` by `state`, which is the same.
    pub(crate) fn replace(&mut self, index: usize, state: StateRef, pool: &mut StatePool) {
        let last = index + 1 == self.known.len();
        pool.share(state);
        if last {
            pool.pin(state);
            pool.unpin(self.known[index].state);
        }
        pool.release(std::mem::replace(&mut self.known[index].state, state));
    }

    fn unpin(&self, pool: &mut StatePool) {
        self.known.last().into_iter().for_each(|last| pool.unpin(last.state));
    }
}
