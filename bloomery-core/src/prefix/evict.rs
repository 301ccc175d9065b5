//! What leaves the pool when room is needed, and how it comes back.

use super::node::{NodeId, Place};
use super::tree::PrefixTree;
use crate::backend::Backend;
use crate::state::{PAGE, PageId, PagePool};
use crate::units::Bytes;

impl PrefixTree {
    /// Frees pages that no sequence has, least recently used first, until the pool has `pages` free ones. They are
    /// parked if the budget allows. Returns `false`, and evicts nothing, if there are not enough.
    pub(crate) fn make_room(&mut self, pages: usize, pool: &mut PagePool, backend: &mut dyn Backend) -> bool {
        if pool.available() + pool.idle() < pages {
            return false;
        }
        while pool.available() < pages {
            let idle = |&(_, node): &(u64, NodeId)| match self.nodes[node].place {
                Place::Resident(page) if pool.is_idle(page) => Some((node, page)),
                _ => None,
            };
            // Leaves that are passed over belong to open sequences, one to each.
            if let Some((node, page)) = self.leaves.iter().find_map(idle) {
                self.evict(node, page, pool, backend);
            } else if let Some(&(_, node)) = self.leaves.first() {
                // A fork that published got the tree's pages for its own; the other one kept those, and has a leaf
                // without having what is above it. The leaf stays with the sequence.
                self.remove(node, pool);
            } else {
                return false;
            }
        }
        true
    }

    /// Moves pages that no sequence has below `end`, where as many are free.
    pub(super) fn move_below(&mut self, end: PageId, pool: &mut PagePool, backend: &mut dyn Backend) {
        let above = self.nodes.iter().filter_map(|(id, node)| match node.place {
            Place::Resident(page) if page >= end && pool.is_idle(page) => Some((id, page)),
            _ => None,
        });
        for (node, from) in above.collect::<Vec<_>>() {
            let Some(to) = pool.renumber(from) else { break };
            backend.copy_page(from, to);
            self.nodes[node].place = Place::Resident(to);
        }
    }

    /// Gives up the tree's share of `page`, so that the sequence that has it may write to it.
    pub(crate) fn let_go(&mut self, page: PageId, pool: &mut PagePool) {
        let holder = |node: &Place| matches!(node, Place::Resident(kept) if *kept == page);
        let found = self.nodes.iter().find_map(|(id, node)| holder(&node.place).then_some(id));
        if let Some(node) = found {
            self.remove(node, pool);
        }
    }

    fn evict(&mut self, node: NodeId, page: PageId, pool: &mut PagePool, backend: &mut dyn Backend) {
        self.stats.evicted += 1;
        if !self.make_parking(backend.page_bytes(), self.nodes[node].last_use, pool) {
            self.stats.dropped += 1;
            self.remove(node, pool);
            return;
        }
        let mut bytes = Vec::with_capacity(backend.page_bytes());
        backend.read_page(page, &mut bytes);
        self.stats.parked_bytes += Bytes(bytes.len() as u64);
        self.stats.parked_pages += 1;
        self.unlist(node);
        let sound = pool.sound_rows(page, PAGE);
        self.nodes[node].place = Place::Parked { bytes: bytes.into_boxed_slice(), sound };
        self.list(node);
        self.lose_child(node, true);
        self.stats.resident_pages -= 1;
        pool.drop_kept(page);
    }

    /// Makes room for `size` bytes in the budget, at the cost of what was not used after `last_use`.
    pub(super) fn make_parking(&mut self, size: usize, last_use: u64, pool: &mut PagePool) -> bool {
        let size = Bytes(size as u64);
        if size > self.stats.budget {
            return false;
        }
        while self.stats.parked_bytes + size > self.stats.budget {
            let page = self.parked_leaves.first().copied();
            let state = self.parked_states.first().copied();
            match (page, state) {
                (page, Some((used, node, rows)))
                    if used <= last_use && page.is_none_or(|page| page.0 >= used) =>
                {
                    self.stats.dropped_states += 1;
                    self.drop_checkpoint(node, rows, pool);
                }
                (Some((used, node)), _) if used <= last_use => {
                    self.stats.dropped += 1;
                    self.unlink(node, pool);
                }
                _ => return false,
            }
        }
        true
    }

    /// The page of a node whose parents are in the pool.
    pub(super) fn bring_back(
        &mut self,
        node: NodeId,
        pool: &mut PagePool,
        backend: &mut dyn Backend,
    ) -> Option<PageId> {
        let size = match &self.nodes[node].place {
            Place::Resident(page) => return Some(*page),
            Place::Parked { bytes, .. } => Bytes(bytes.len() as u64),
            Place::None => return None,
        };
        // The page that makes room may be parked where this one was.
        self.stats.parked_bytes = self.stats.parked_bytes.saturating_sub(size);
        let made = self.make_room(1, pool, backend);
        self.stats.parked_bytes += size;
        let page = made.then(|| pool.take()).flatten()?;
        let rows = self.nodes[node].tokens().len();
        pool.wrote(page, rows);
        if let Place::Parked { bytes, sound } = &self.nodes[node].place {
            backend.write_page(page, bytes);
            if *sound < rows {
                pool.wrote_keys(page, *sound, false);
            }
        }
        pool.keep(page, rows);
        pool.release(page);
        self.unpark(node, page);
        self.stats.restored += 1;
        Some(page)
    }

    /// A parked node is in the pool again, as `page`, which the tree owns already.
    pub(super) fn unpark(&mut self, node: NodeId, page: PageId) {
        self.unlist(node);
        if let Place::Parked { bytes, .. } =
            std::mem::replace(&mut self.nodes[node].place, Place::Resident(page))
        {
            self.stats.parked_bytes = self.stats.parked_bytes.saturating_sub(Bytes(bytes.len() as u64));
            self.stats.parked_pages -= 1;
            self.stats.resident_pages += 1;
        }
        self.list(node);
        self.gain_resident_child(self.nodes[node].parent);
    }

    pub(super) fn touch(&mut self, node: NodeId) {
        self.unlist(node);
        self.nodes[node].last_use = self.clock;
        self.list(node);
    }

    /// Removes a node and all below it.
    pub(super) fn remove(&mut self, node: NodeId, pool: &mut PagePool) {
        let mut below = vec![node];
        let mut next = 0;
        while let Some(&id) = below.get(next) {
            below.extend_from_slice(&self.nodes[id].children);
            next += 1;
        }
        for id in below.into_iter().rev() {
            if let Place::Resident(page) = self.unlink(id, pool) {
                self.stats.resident_pages -= 1;
                pool.drop_kept(page);
            }
        }
    }

    /// Takes a node without children out of the tree.
    fn unlink(&mut self, node: NodeId, pool: &mut PagePool) -> Place {
        self.drop_checkpoints(node, pool);
        self.unlist(node);
        self.lose_child(node, self.nodes[node].is_resident());
        let parent = self.nodes[node].parent;
        let at = self.position(parent, self.nodes[node].tokens());
        self.unlist(parent);
        self.nodes[parent].children.remove(at);
        self.list(parent);
        let place = self.nodes.remove(node);
        if let Place::Parked { bytes, .. } = &place {
            self.stats.parked_bytes = self.stats.parked_bytes.saturating_sub(Bytes(bytes.len() as u64));
            self.stats.parked_pages -= 1;
        }
        place
    }

    pub(super) fn gain_resident_child(&mut self, parent: NodeId) {
        self.unlist(parent);
        self.nodes[parent].resident_children += 1;
        self.list(parent);
    }

    /// Tells the parent of `child` that it is parked or removed, and that it was used when the child was.
    fn lose_child(&mut self, child: NodeId, was_resident: bool) {
        let (parent, last_use) = (self.nodes[child].parent, self.nodes[child].last_use);
        self.unlist(parent);
        let node = &mut self.nodes[parent];
        node.resident_children -= usize::from(was_resident);
        node.last_use = node.last_use.max(last_use);
        self.list(parent);
    }

    /// Puts a node where it is found when room is needed. Before anything about it changes, [`unlist`](Self::unlist).
    pub(super) fn list(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        match node.place {
            Place::Resident(_) if node.resident_children == 0 => self.leaves.insert((node.last_use, id)),
            Place::Parked { .. } if node.children.is_empty() => {
                self.parked_leaves.insert((node.last_use, id))
            }
            _ => false,
        };
    }

    pub(super) fn unlist(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        match node.place {
            Place::Resident(_) if node.resident_children == 0 => self.leaves.remove(&(node.last_use, id)),
            Place::Parked { .. } if node.children.is_empty() => {
                self.parked_leaves.remove(&(node.last_use, id))
            }
            _ => false,
        };
    }
}
