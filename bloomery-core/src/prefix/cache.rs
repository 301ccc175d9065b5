//! Pages and the tree over them, under one lock.

use super::PrefixStats;
use super::tree::PrefixTree;
use crate::backend::Backend;
use crate::state::{PagePool, SequenceState};
use crate::units::Bytes;

/// The pool that sessions take their pages from, and what is remembered beyond them.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    pub(crate) pool: PagePool,
    pub(super) tree: PrefixTree,
}

impl PrefixCache {
    pub(crate) fn new(pages: u32, budget: Bytes) -> Self {
        Self { pool: PagePool::new(pages), tree: PrefixTree::new(budget) }
    }

    /// Pages that a sequence could get.
    pub(crate) fn obtainable(&self) -> usize {
        self.pool.available() + self.pool.idle()
    }

    /// Makes room for `tokens` after the end of `state`, and makes the page they begin in its own. Returns `false` and
    /// leaves `state` as it was if there is no room.
    pub(crate) fn grow(
        &mut self,
        state: &mut SequenceState,
        tokens: &[u32],
        backend: &mut dyn Backend,
    ) -> bool {
        let needed = state.needs(tokens.len(), &self.pool);
        if !self.tree.make_room(needed, &mut self.pool, backend) {
            // A copy that only the tree wants is not made at the price of a page that is not there.
            let copied = state.copied_page(tokens.len(), &self.pool);
            let copied = copied.filter(|&page| self.pool.is_kept_for_one(page));
            if let Some(page) = copied.filter(|_| self.obtainable() + 1 == needed) {
                self.tree.let_go(page, &mut self.pool);
                self.tree.make_room(needed - 1, &mut self.pool, backend);
            }
        }
        let Some(copy) = state.grow(tokens, &mut self.pool) else { return false };
        if let Some(copy) = copy {
            backend.copy_page(copy.from, copy.to);
        }
        true
    }

    /// Makes `state` the longest beginning of `tokens` that it or the tree has. What it was before stays in the tree.
    pub(crate) fn adopt(&mut self, state: &mut SequenceState, tokens: &[u32], backend: &mut dyn Backend) {
        self.publish(state);
        let own = state.tokens().iter().zip(tokens).take_while(|(a, b)| a == b).count();
        // Pages past the common part are evictable from here on, for parked pages to come back.
        state.truncate(own, &mut self.pool);
        let found = self.tree.find(tokens);
        if found.len() > own {
            let mut other = self.tree.take(tokens, &found, &mut self.pool, backend);
            if other.len() > own {
                self.tree.count_served(other.len() - own);
                std::mem::swap(state, &mut other);
            }
            other.truncate(0, &mut self.pool);
        }
    }

    /// Has no more than `pages` pages from now on. Prefixes that no sequence has move together; those that find no room leave the
    /// pool. Returns how many; the error is how many pages sequences need.
    pub(crate) fn shrink(&mut self, pages: u32, backend: &mut dyn Backend) -> Result<u64, usize> {
        let (most, held, before) = (pages as usize, self.pool.held(), self.tree.stats().evicted);
        let surplus = self.pool.capacity().saturating_sub(most);
        if held > most || !self.tree.make_room(surplus, &mut self.pool, backend) {
            return Err(held);
        }
        self.tree.move_below(pages, &mut self.pool, backend);
        self.pool.resize(pages);
        Ok(self.tree.stats().evicted - before)
    }

    /// Lets the tree have all of `state`.
    pub(crate) fn publish(&mut self, state: &mut SequenceState) {
        self.tree.insert(state, &mut self.pool);
    }

    /// Lets the tree forget what only a sequence of `tokens` needs.
    pub(crate) fn forget(&mut self, tokens: &[u32]) {
        self.tree.forget(tokens, &mut self.pool);
    }

    /// Lets the tree forget everything.
    pub(crate) fn clear(&mut self) {
        self.tree.clear(&mut self.pool);
    }

    pub(crate) fn stats(&self) -> PrefixStats {
        PrefixStats {
            total_pages: self.pool.capacity(),
            free_pages: self.pool.available(),
            idle_pages: self.pool.idle(),
            ..self.tree.stats()
        }
    }
}
