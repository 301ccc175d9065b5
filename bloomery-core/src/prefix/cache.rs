//! Pages and the tree over them, under one lock.

use super::tree::PrefixTree;
use super::{PrefixStats, SlotUse};
use crate::backend::Backend;
use crate::state::{PAGE, PagePool, SequenceState, StatePool, StateRef};
use crate::units::Bytes;

/// The pool that sessions take their pages from, and what is remembered beyond them.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    pub(crate) pool: PagePool,
    pub(super) tree: PrefixTree,
}

impl PrefixCache {
    /// `states` is empty for models without recurrent states.
    pub(crate) fn new(pages: u32, states: StatePool, budget: Bytes) -> Self {
        Self { pool: PagePool::new(pages, states), tree: PrefixTree::new(budget) }
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
    /// Nothing is owed afterwards.
    pub(crate) fn adopt(&mut self, state: &mut SequenceState, tokens: &[u32], backend: &mut dyn Backend) {
        self.publish(state, true);
        let own = state.tokens().iter().zip(tokens).take_while(|(a, b)| a == b).count();
        // Pages past the common part are evictable from here on, for parked pages to come back.
        state.cut(own, &mut self.pool);
        let found = self.tree.find(tokens);
        let mut most = found.len();
        while let Some(len) = self.tree.reach(&found, most, &self.pool).filter(|&len| len > state.len()) {
            let mut other = self.tree.take(tokens, (&found, len), &mut self.pool, backend);
            if self.pool.states.is_used() && other.len() < len {
                // There is no room for these pages or the state, perhaps for earlier ones.
                most = len - 1;
                other.cut(0, &mut self.pool);
                continue;
            }
            if other.len() > state.len() {
                self.tree.count_served(other.len() - state.len());
                other.recurrent().take_branches(state.recurrent());
                std::mem::swap(state, &mut other);
            }
            other.cut(0, &mut self.pool);
            break;
        }
        if self.pool.states.is_used() && found.len() > state.len() {
            // Texts part here, and not for the last time. Pages that are full are found from all their branches.
            state.recurrent().branch_at(found.len() / PAGE * PAGE);
        }
    }

    /// A slot for a state, with one owner that goes on from it.
    pub(crate) fn state_slot(&mut self, slot_use: SlotUse, backend: &mut dyn Backend) -> Option<StateRef> {
        self.tree.state_slot(slot_use, &mut self.pool, backend)
    }

    /// Has the state that `state`, and no other sequence, goes on from written over. All others find it gone.
    pub(crate) fn overwrite_end(
        &mut self,
        state: &mut SequenceState,
        backend: &mut dyn Backend,
    ) -> Option<StateRef> {
        let end = state.known().last().map(|known| known.state)?;
        if !self.pool.states.is_end_of_one(end) {
            return None;
        }
        state.recurrent().give_end(&mut self.pool.states);
        Some(self.tree.overwrite(end, &mut self.pool, backend))
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

    /// Lets the tree have all of `state`; the recurrent state that it goes on from only if it has `ended`.
    pub(crate) fn publish(&mut self, state: &mut SequenceState, ended: bool) {
        self.tree.insert(state, ended, &mut self.pool);
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
            total_states: self.pool.states.capacity(),
            free_states: self.pool.states.available(),
            ..self.tree.stats()
        }
    }
}
