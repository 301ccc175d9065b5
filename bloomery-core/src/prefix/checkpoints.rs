//! Recurrent states in the tree: how they come in, go to host memory, and come back.

use super::node::{Checkpoint, NodeId, StatePlace};
use super::tree::{Match, PrefixTree};
use crate::backend::Backend;
use crate::state::{Keep, Kept, Known, PAGE, PagePool, SequenceState, StateId, StateRef};
use crate::units::Bytes;

/// What a slot is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotUse {
    /// The state that a sequence goes on from.
    End,
    /// A state to come back to.
    Checkpoint,
    /// One that takes the place of another when the step is over, or that guesses are followed by. Nothing that is of use
    /// leaves its slot for that.
    Moment,
}

impl PrefixTree {
    /// How many of the first `most` positions of what was found can be taken.
    pub(super) fn reach(&self, found: &Match, most: usize, pool: &PagePool) -> Option<usize> {
        if !pool.states.is_used() {
            return Some(found.len());
        }
        let nodes = found.nodes.iter().enumerate().rev();
        nodes
            .filter_map(|(index, &node)| {
                let rows = most.checked_sub(index * PAGE)?;
                let checkpoints = self.nodes[node].checkpoints.iter().rev();
                let known = checkpoints.map(|checkpoint| checkpoint.rows).find(|&known| known <= rows)?;
                Some(index * PAGE + known)
            })
            .next()
    }

    /// Gives `state`, which has pages of what was found, the states of them that are in slots.
    pub(super) fn give_states(&self, state: &mut SequenceState, found: &Match, pool: &mut PagePool) {
        for (index, &node) in found.nodes[..state.pages().len()].iter().enumerate() {
            for checkpoint in &self.nodes[node].checkpoints {
                let len = index * PAGE + checkpoint.rows;
                if let StatePlace::Resident(resident) = checkpoint.place
                    && len <= state.len()
                {
                    let known = Known { len, state: resident, keep: Keep::Spaced };
                    state.recurrent().adopt(known, &mut pool.states);
                }
            }
        }
    }

    /// Brings a state into a slot. False if there is none for it.
    pub(super) fn bring_state_back(
        &mut self,
        (node, rows): Kept,
        pool: &mut PagePool,
        backend: &mut dyn Backend,
    ) -> bool {
        let Some(at) = self.checkpoint(node, rows) else { return false };
        if let StatePlace::Resident(state) = self.nodes[node].checkpoints[at].place {
            pool.states.touch(state, self.clock);
            return true;
        }
        // Out of the tree, for what makes room is parked where it was.
        let StatePlace::Parked { bytes, last_use } = self.nodes[node].checkpoints.remove(at).place else {
            return false;
        };
        self.unpark_state((node, rows), bytes.len(), last_use);
        let Some(state) = self.state_slot(SlotUse::End, pool, backend) else {
            self.park_state((node, rows), bytes, self.clock);
            return false;
        };
        backend.write_state(state.id(), &bytes);
        self.attach((node, rows), state, pool);
        pool.states.touch(state, self.clock);
        pool.states.unpin(state);
        pool.states.release(state);
        self.stats.restored_states += 1;
        true
    }

    /// Remembers the states of a sequence whose pages are in the tree; `tail` is the node of a last page that is not full.
    pub(super) fn insert_states(
        &mut self,
        state: &mut SequenceState,
        tail: Option<NodeId>,
        ended: bool,
        pool: &mut PagePool,
    ) {
        for index in 0..state.known().len() {
            let known = state.known()[index];
            let passes = known.keep == Keep::No && !(ended && known.len == state.len());
            if passes || pool.states.kept(known.state).is_some() || !pool.states.has(known.state) {
                continue;
            }
            let page = (known.len - 1) / PAGE;
            let Some(node) = self.node_of(state, page, tail) else { continue };
            let at = (node, known.len - page * PAGE);
            match self.checkpoint(at.0, at.1).map(|index| &self.nodes[node].checkpoints[index].place) {
                Some(&StatePlace::Resident(resident)) => {
                    state.recurrent().replace(index, resident, &mut pool.states);
                    continue;
                }
                Some(StatePlace::Parked { .. }) => self.drop_checkpoint(at.0, at.1, pool),
                None => {}
            }
            self.attach(at, known.state, pool);
        }
    }

    /// The node of a page of a sequence that is in the tree.
    fn node_of(&self, state: &SequenceState, page: usize, tail: Option<NodeId>) -> Option<NodeId> {
        let mark = state.mark().filter(|&mark| self.nodes.has(mark));
        match mark {
            Some(mark) if page < mark.pages => {
                Some((page + 1..mark.pages).fold(mark.node, |node, _| self.nodes[node].parent))
            }
            _ => tail,
        }
    }

    fn attach(&mut self, (node, rows): Kept, state: StateRef, pool: &mut PagePool) {
        pool.states.keep(state, (node, rows));
        self.stats.resident_states += 1;
        self.put((node, rows), StatePlace::Resident(state));
    }

    fn put(&mut self, (node, rows): Kept, place: StatePlace) {
        let checkpoints = &mut self.nodes[node].checkpoints;
        let at = checkpoints.partition_point(|checkpoint| checkpoint.rows < rows);
        checkpoints.insert(at, Checkpoint { rows, place });
    }

    fn checkpoint(&self, node: NodeId, rows: usize) -> Option<usize> {
        self.nodes[node].checkpoints.iter().position(|checkpoint| checkpoint.rows == rows)
    }

    fn park_state(&mut self, (node, rows): Kept, bytes: Box<[u8]>, last_use: u64) {
        self.stats.parked_bytes += Bytes(bytes.len() as u64);
        self.stats.parked_states += 1;
        self.parked_states.insert((last_use, node, rows));
        self.put((node, rows), StatePlace::Parked { bytes, last_use });
    }

    /// A parked state is none any more.
    fn unpark_state(&mut self, (node, rows): Kept, size: usize, last_use: u64) {
        self.stats.parked_bytes = self.stats.parked_bytes.saturating_sub(Bytes(size as u64));
        self.stats.parked_states -= 1;
        self.parked_states.remove(&(last_use, node, rows));
    }

    /// Forgets a state.
    pub(super) fn drop_checkpoint(&mut self, node: NodeId, rows: usize, pool: &mut PagePool) {
        let Some(at) = self.checkpoint(node, rows) else { return };
        match self.nodes[node].checkpoints.remove(at).place {
            StatePlace::Resident(state) => {
                self.stats.resident_states -= 1;
                pool.states.drop_kept(state);
            }
            StatePlace::Parked { bytes, last_use } => self.unpark_state((node, rows), bytes.len(), last_use),
        }
    }

    /// Forgets all states of a node.
    pub(super) fn drop_checkpoints(&mut self, node: NodeId, pool: &mut PagePool) {
        while let Some(rows) = self.nodes[node].checkpoints.last().map(|checkpoint| checkpoint.rows) {
            self.drop_checkpoint(node, rows, pool);
        }
    }

    /// A slot with one owner that goes on from it. What had to leave it is parked if the budget allows.
    pub(super) fn state_slot(
        &mut self,
        slot_use: SlotUse,
        pool: &mut PagePool,
        backend: &mut dyn Backend,
    ) -> Option<StateRef> {
        self.clock += 1;
        let reserve = if slot_use == SlotUse::Moment { 0 } else { pool.states.reserve() };
        if pool.states.available() <= reserve {
            match pool.states.idle() {
                Some(idle) if idle.passing || slot_use != SlotUse::Moment => {
                    if let Some(at) = idle.kept {
                        let park = !idle.passing && (self.is_end(at) || self.is_branch(at));
                        self.evict_state(at, park, pool, backend);
                    }
                    pool.states.revoke(idle.id);
                }
                _ if slot_use == SlotUse::Checkpoint => return None,
                _ => {}
            }
        }
        pool.states.take(self.clock)
    }

    /// Has the state that one sequence goes on from written over.
    pub(super) fn overwrite(
        &mut self,
        state: StateRef,
        pool: &mut PagePool,
        backend: &mut dyn Backend,
    ) -> StateRef {
        if let Some(at) = pool.states.kept(state) {
            // That it is the end of what is known does not count: the sequence goes on.
            self.evict_state(at, self.is_branch(at), pool, backend);
        }
        self.clock += 1;
        pool.states.overwrite(state, self.clock)
    }

    /// Whether nothing that is known goes on after a state: a turn ended there, and the next begins there. Only such states
    /// and those of [branches](Self::is_branch) are worth a copy while all steps wait. Those on the way of one text are for
    /// edits, and cost some hundred rows to compute again.
    fn is_end(&self, (node, rows): Kept) -> bool {
        let node = &self.nodes[node];
        node.children.is_empty() && rows == node.tokens().len()
    }

    /// Whether texts part after a state.
    fn is_branch(&self, (node, rows): Kept) -> bool {
        rows == PAGE && self.nodes[node].children.len() > 1
    }

    /// Takes a state out of its slot, whose number it then has no more; others may.
    fn evict_state(
        &mut self,
        (node, rows): Kept,
        park: bool,
        pool: &mut PagePool,
        backend: &mut dyn Backend,
    ) {
        let Some(at) = self.checkpoint(node, rows) else { return };
        let StatePlace::Resident(state) = self.nodes[node].checkpoints[at].place else { return };
        let (id, last_use, size): (StateId, u64, usize) =
            (state.id(), pool.states.last_use(state), backend.state_bytes());
        let park = park && self.make_parking(size, last_use, pool);
        if self.checkpoint(node, rows).is_none() {
            // The node was parked itself, and had to go for its own state.
            return;
        }
        let mut bytes = Vec::new();
        if park {
            bytes.reserve_exact(size);
            backend.read_state(id, &mut bytes);
        } else {
            self.stats.dropped_states += 1;
        }
        self.drop_checkpoint(node, rows, pool);
        if park {
            self.park_state((node, rows), bytes.into_boxed_slice(), last_use);
        }
    }
}
