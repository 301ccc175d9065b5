//! Sequences into the tree and out of it.

use std::collections::BTreeSet;

use super::PrefixStats;
use super::node::{Arena, Mark, NodeId, Place, ROOT};
use crate::backend::Backend;
use crate::state::{PAGE, PageId, PagePool, SequenceState};
use crate::units::Bytes;

/// Every published beginning of a sequence.
#[derive(Debug)]
pub(crate) struct PrefixTree {
    pub(super) nodes: Arena,
    /// Nodes in the pool with no child in the pool, by last use.
    pub(super) leaves: BTreeSet<(u64, NodeId)>,
    /// Parked nodes without children, by last use.
    pub(super) parked_leaves: BTreeSet<(u64, NodeId)>,
    /// Parked states, by last use: nodes and rows.
    pub(super) parked_states: BTreeSet<(u64, NodeId, usize)>,
    pub(super) clock: u64,
    pub(super) stats: PrefixStats,
}

/// Nodes from the root downwards, and how many positions of a prompt they hold.
#[derive(Debug)]
pub(crate) struct Match {
    pub(super) nodes: Vec<NodeId>,
    pub(super) len: usize,
}

impl Match {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where the first `len` positions end: a node, and rows of it.
    pub(super) fn end(&self, len: usize) -> (NodeId, usize) {
        let last = (len - 1) / PAGE;
        (self.nodes[last], len - last * PAGE)
    }
}

impl PrefixTree {
    /// Keeps at most `budget` bytes of pages outside the pool.
    pub(crate) fn new(budget: Bytes) -> Self {
        Self {
            nodes: Arena::new(),
            leaves: BTreeSet::new(),
            parked_leaves: BTreeSet::new(),
            parked_states: BTreeSet::new(),
            clock: 0,
            stats: PrefixStats { budget, ..PrefixStats::default() },
        }
    }

    pub(crate) fn stats(&self) -> PrefixStats {
        self.stats
    }

    pub(crate) fn count_served(&mut self, tokens: usize) {
        self.stats.served_tokens += tokens as u64;
    }

    /// The longest beginning of `tokens` that the tree has, to the token.
    pub(crate) fn find(&self, tokens: &[u32]) -> Match {
        let mut found = Match { nodes: Vec::new(), len: 0 };
        let mut parent = ROOT;
        for page in tokens.chunks(PAGE) {
            let Some((node, common)) = self.nearest(parent, page) else { break };
            found.nodes.push(node);
            found.len += common;
            if common < PAGE {
                break;
            }
            parent = node;
        }
        found
    }

    /// A sequence of `len` positions of what [`find`](Self::find) found of the same tokens. Parked pages are brought back;
    /// where there is no room for one, the sequence ends before it; with recurrent states it is of no use then.
    pub(crate) fn take(
        &mut self,
        tokens: &[u32],
        (found, len): (&Match, usize),
        pool: &mut PagePool,
        backend: &mut dyn Backend,
    ) -> SequenceState {
        // First of all: what is used now is not evicted to make room for the rest of it.
        self.clock += 1;
        found.nodes.iter().for_each(|&node| self.touch(node));
        let mut state = SequenceState::default();
        if pool.states.is_used() && !self.bring_state_back(found.end(len), pool, backend) {
            return state;
        }
        for (&node, tokens) in found.nodes.iter().zip(tokens[..len].chunks(PAGE)) {
            let Some(page) = self.bring_back(node, pool, backend) else { break };
            pool.share(page);
            state.append(page, tokens);
            if tokens.len() == PAGE {
                state.set_mark(Some(self.mark(node, state.pages().len())));
            }
        }
        if pool.states.is_used() && state.len() == len {
            self.give_states(&mut state, found, pool);
        }
        state
    }

    /// Remembers all of a sequence, the state it goes on from only if that is `ended`. Its pages are shared, not copied; where
    /// the tree has a full page of the same tokens, the sequence gets that one and gives its own back.
    pub(crate) fn insert(&mut self, state: &mut SequenceState, ended: bool, pool: &mut PagePool) {
        let tail = self.insert_pages(state, pool);
        if pool.states.is_used() {
            self.insert_states(state, tail, ended, pool);
        }
    }

    /// Returns the node of the page that is not full.
    fn insert_pages(&mut self, state: &mut SequenceState, pool: &mut PagePool) -> Option<NodeId> {
        self.clock += 1;
        let (mut parent, mut start) = (ROOT, 0);
        if let Some(mark) = state.mark().filter(|&mark| self.nodes.has(mark)) {
            self.touch(mark.node);
            (parent, start) = (mark.node, mark.pages);
        }
        for index in start..state.pages().len() {
            let page = state.pages()[index];
            let end = state.len().min((index + 1) * PAGE);
            let node = self.hold(parent, &state.tokens()[index * PAGE..end], page, pool);
            if end < (index + 1) * PAGE {
                return Some(node);
            }
            match self.nodes[node].place {
                Place::Resident(kept) if kept != page => state.replace(index, kept, pool),
                _ => {}
            }
            state.set_mark(Some(self.mark(node, index + 1)));
            parent = node;
        }
        None
    }

    /// Forgets the nodes that hold `tokens` and nothing more, from the end back to where another sequence branches off.
    pub(crate) fn forget(&mut self, tokens: &[u32], pool: &mut PagePool) {
        let (mut parent, mut path) = (ROOT, Vec::new());
        for page in tokens.chunks(PAGE) {
            let Some((node, common)) = self.nearest(parent, page) else { break };
            if common < self.nodes[node].tokens().len() {
                break;
            }
            path.push(node);
            parent = node;
        }
        for node in path.into_iter().rev() {
            if !self.nodes[node].children.is_empty() {
                break;
            }
            self.remove(node, pool);
        }
    }

    pub(crate) fn clear(&mut self, pool: &mut PagePool) {
        while let Some(&node) = self.nodes[ROOT].children.last() {
            self.remove(node, pool);
        }
    }

    fn mark(&self, node: NodeId, pages: usize) -> Mark {
        Mark { node, serial: self.nodes[node].serial, pages }
    }

    /// Where a child with `tokens` stands or would stand.
    pub(super) fn position(&self, parent: NodeId, tokens: &[u32]) -> usize {
        self.nodes[parent].children.partition_point(|&child| self.nodes[child].tokens() < tokens)
    }

    /// The child that has most of `page` in common with it, and how much.
    fn nearest(&self, parent: NodeId, page: &[u32]) -> Option<(NodeId, usize)> {
        let children = &self.nodes[parent].children;
        let at = self.position(parent, page);
        let neighbours = &children[at.saturating_sub(1)..children.len().min(at + 1)];
        let common =
            |id: NodeId| self.nodes[id].tokens().iter().zip(page).take_while(|(a, b)| a == b).count();
        let best = neighbours.iter().map(|&id| (id, common(id))).filter(|&(_, common)| common > 0);
        best.max_by_key(|&(id, common)| (common, self.nodes[id].is_resident()))
    }

    /// The child that holds `tokens`, made or extended if need be.
    fn hold(&mut self, parent: NodeId, tokens: &[u32], page: PageId, pool: &mut PagePool) -> NodeId {
        let at = self.position(parent, tokens);
        let children = &self.nodes[parent].children;
        let after = children.get(at).filter(|&&id| self.nodes[id].tokens().starts_with(tokens));
        let before = || {
            let before = at.checked_sub(1).map(|before| &children[before]);
            before.filter(|&&id| tokens.starts_with(self.nodes[id].tokens()))
        };
        let Some(node) = after.or_else(before).copied() else {
            let node = self.nodes.add(parent, tokens, Place::Resident(page), self.clock);
            pool.keep(page, tokens.len());
            self.stats.resident_pages += 1;
            self.nodes[parent].children.insert(at, node);
            self.list(node);
            self.gain_resident_child(parent);
            return node;
        };
        self.touch(node);
        let (len, held) = (tokens.len(), self.nodes[node].tokens().len());
        let longer = len > held;
        match self.nodes[node].place {
            Place::Resident(kept) if longer && kept == page => pool.keep_more(page, tokens.len()),
            // Of equals the one that is there stays: others may have it already. Layers behind a program's cut may lack keys of it.
            Place::Resident(kept) if longer || (len == held && sounder(pool, page, kept, len)) => {
                pool.keep(page, tokens.len());
                pool.drop_kept(kept);
                self.nodes[node].place = Place::Resident(page);
            }
            Place::Parked { .. } if tokens.len() >= self.nodes[node].tokens().len() => {
                pool.keep(page, tokens.len());
                self.unpark(node, page);
            }
            _ => {}
        }
        if longer {
            self.nodes[node].set_tokens(tokens);
        }
        node
    }
}

/// Whether `page` has right keys of more of the first `rows` rows than `other` has.
fn sounder(pool: &PagePool, page: PageId, other: PageId, rows: usize) -> bool {
    pool.sound_rows(page, rows) > pool.sound_rows(other, rows)
}
