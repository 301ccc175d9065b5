//! Nodes of the tree and where they are kept.

use std::ops::{Index, IndexMut};

use crate::state::{PAGE, PageId, StateRef};

/// A node's place in the [`Arena`].
pub(super) type NodeId = u32;

/// The node above all others. It has no tokens and is never removed.
pub(super) const ROOT: NodeId = 0;

/// Where the keys and values of a node are.
#[derive(Debug)]
pub(super) enum Place {
    /// Nowhere: the root, and nodes that were removed.
    None,
    /// In the pool.
    Resident(PageId),
    /// In host memory, as the backend read them.
    Parked {
        bytes: Box<[u8]>,
        /// Rows before the first that not all layers have right keys of.
        sound: usize,
    },
}

/// A recurrent state after some rows of a node.
#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) rows: usize,
    pub(super) place: StatePlace,
}

/// Where a recurrent state is.
#[derive(Debug)]
pub(super) enum StatePlace {
    /// In a slot.
    Resident(StateRef),
    /// In host memory, as the backend read it.
    Parked {
        /// The state.
        bytes: Box<[u8]>,
        /// When it was last asked for.
        last_use: u64,
    },
}

/// One page of a prefix.
#[derive(Debug)]
pub(super) struct Node {
    tokens: [u32; PAGE],
    len: usize,
    pub(super) place: Place,
    /// Ascending by rows. States of other rows were not kept or have gone.
    pub(super) checkpoints: Vec<Checkpoint>,
    pub(super) parent: NodeId,
    /// Sorted by their tokens.
    pub(super) children: Vec<NodeId>,
    pub(super) resident_children: usize,
    /// When it was last asked for. That of a parent may be behind while it has children in the pool.
    pub(super) last_use: u64,
    /// Of all nodes there ever were, which one this is.
    pub(super) serial: u64,
}

impl Node {
    fn empty() -> Self {
        Self {
            tokens: [0; PAGE],
            len: 0,
            place: Place::None,
            checkpoints: Vec::new(),
            parent: ROOT,
            children: Vec::new(),
            resident_children: 0,
            last_use: 0,
            serial: 0,
        }
    }

    pub(super) fn tokens(&self) -> &[u32] {
        &self.tokens[..self.len]
    }

    /// At most [`PAGE`] tokens.
    pub(super) fn set_tokens(&mut self, tokens: &[u32]) {
        self.tokens[..tokens.len()].copy_from_slice(tokens);
        self.len = tokens.len();
    }

    pub(super) fn is_resident(&self) -> bool {
        matches!(self.place, Place::Resident(_))
    }
}

/// Remembers that the first `pages` pages of a sequence are those of a node and its parents. Void when the node is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(super) node: NodeId,
    pub(super) serial: u64,
    pub(crate) pages: usize,
}

/// All nodes of a tree.
#[derive(Debug)]
pub(super) struct Arena {
    nodes: Vec<Node>,
    vacant: Vec<NodeId>,
    serial: u64,
}

impl Arena {
    pub(super) fn new() -> Self {
        Self { nodes: vec![Node::empty()], vacant: Vec::new(), serial: 0 }
    }

    pub(super) fn add(&mut self, parent: NodeId, tokens: &[u32], place: Place, now: u64) -> NodeId {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(Node::empty());
            (self.nodes.len() - 1) as NodeId
        });
        self.serial += 1;
        let node = &mut self.nodes[id as usize];
        node.set_tokens(tokens);
        (node.place, node.parent, node.last_use, node.serial) = (place, parent, now, self.serial);
        id
    }

    /// Removes a node that has no children.
    pub(super) fn remove(&mut self, id: NodeId) -> Place {
        let node = std::mem::replace(&mut self.nodes[id as usize], Node::empty());
        debug_assert!(node.children.is_empty() && id != ROOT);
        self.vacant.push(id);
        node.place
    }

    pub(super) fn has(&self, mark: Mark) -> bool {
        self[mark.node].serial == mark.serial
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0..).zip(&self.nodes).filter(|(_, node)| !matches!(node.place, Place::None))
    }
}

impl Index<NodeId> for Arena {
    type Output = Node;
    fn index(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }
}

impl IndexMut<NodeId> for Arena {
    fn index_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }
}
