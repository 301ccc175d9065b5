//! The tree over a backend whose pages tell which beginning they hold.

mod order;
mod property;

use std::collections::{BTreeMap, BTreeSet};

use super::node::{Place, ROOT, StatePlace};
use super::{PrefixCache, PrefixStats};
use crate::backend::{Answer, Backend, Batch};
use crate::error::EngineError;
use crate::state::{PAGE, PageId, SequenceState, StatePool, StateRef};
use crate::units::Bytes;

/// A beginning that has a recurrent state, and that in its slot or as bytes.
pub(crate) type Found<'a> = (Vec<u32>, Result<StateRef, &'a [u8]>);

impl PrefixCache {
    /// Of all beginnings.
    pub(crate) fn checkpoints(&self) -> Vec<Found<'_>> {
        let (mut next, mut found) = (vec![(ROOT, Vec::new())], Vec::new());
        while let Some((id, before)) = next.pop() {
            let node = &self.tree.nodes[id];
            for checkpoint in &node.checkpoints {
                let tokens = [&before[..], &node.tokens()[..checkpoint.rows]].concat();
                found.push((
                    tokens,
                    match &checkpoint.place {
                        StatePlace::Resident(state) => Ok(*state),
                        StatePlace::Parked { bytes, .. } => Err(&**bytes),
                    },
                ));
            }
            let tokens = [before, node.tokens().to_vec()].concat();
            next.extend(node.children.iter().map(|&child| (child, tokens.clone())));
        }
        found
    }
}

/// A row is a hash of all tokens up to its own, as keys and values depend on all of them.
struct Rows(Vec<[u64; PAGE]>);

const PAGE_BYTES: usize = PAGE * size_of::<u64>();

impl Backend for Rows {
    fn step(&mut self, _: Batch<'_>) -> Result<Answer<'_>, EngineError> {
        Err(EngineError::Poisoned)
    }

    fn copy_page(&mut self, from: PageId, to: PageId) {
        self.0[to as usize] = self.0[from as usize];
    }

    fn read_page(&mut self, page: PageId, out: &mut Vec<u8>) {
        self.0[page as usize].iter().for_each(|row| out.extend_from_slice(&row.to_le_bytes()));
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        self.0[page as usize] = rows_of(bytes);
    }

    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }
}

fn rows_of(bytes: &[u8]) -> [u64; PAGE] {
    let mut rows = [0; PAGE];
    rows.iter_mut().zip(bytes.as_chunks().0).for_each(|(row, bytes)| *row = u64::from_le_bytes(*bytes));
    rows
}

/// The row of every position.
fn expected(tokens: &[u32]) -> Vec<u64> {
    let next = |hash: &mut u64, &token: &u32| {
        *hash = (*hash ^ u64::from(token)).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
        Some(*hash)
    };
    tokens.iter().scan(0xcbf2_9ce4_8422_2325, next).collect()
}

/// A cache and the sequences that use it.
struct World {
    cache: PrefixCache,
    rows: Rows,
    sequences: Vec<SequenceState>,
}

impl World {
    fn new(pages: u32, parked_pages: usize) -> Self {
        Self {
            cache: PrefixCache::new(pages, StatePool::new(0, 0), Bytes::of(parked_pages, PAGE_BYTES)),
            rows: Rows(vec![[0; PAGE]; pages as usize]),
            sequences: Vec::new(),
        }
    }

    fn open(&mut self) -> usize {
        self.sequences.push(SequenceState::default());
        self.sequences.len() - 1
    }

    /// Whether there was room.
    fn feed(&mut self, sequence: usize, tokens: &[u32]) -> bool {
        let state = &mut self.sequences[sequence];
        let start = state.len();
        if !self.cache.grow(state, tokens, &mut self.rows) {
            assert_eq!(state.len(), start);
            return false;
        }
        for (position, row) in expected(state.tokens()).into_iter().enumerate().skip(start) {
            self.rows.0[state.pages()[position / PAGE] as usize][position % PAGE] = row;
        }
        true
    }

    fn adopt(&mut self, sequence: usize, tokens: &[u32]) -> usize {
        self.cache.adopt(&mut self.sequences[sequence], tokens, &mut self.rows);
        self.sequences[sequence].len()
    }

    fn publish(&mut self, sequence: usize) {
        self.cache.publish(&mut self.sequences[sequence], true);
    }

    fn truncate(&mut self, sequence: usize, len: usize) {
        self.sequences[sequence].truncate(len, &mut self.cache.pool);
    }

    /// Whether the pool could have so many pages, and has them now. What is in none of them is forgotten.
    fn resize(&mut self, pages: u32) -> bool {
        let before = self.stats();
        if (pages as usize) < before.total_pages {
            let used = before.total_pages - before.free_pages;
            match self.cache.shrink(pages, &mut self.rows) {
                Ok(evicted) => assert!(evicted as usize <= used.saturating_sub(pages as usize), "{before:?}"),
                Err(held) => {
                    assert!(held > pages as usize);
                    assert_eq!(self.stats(), before);
                    return false;
                }
            }
        } else {
            self.cache.pool.resize(pages);
        }
        self.rows.0.resize(pages as usize, [0; PAGE]);
        true
    }

    /// A published sequence that is in no session.
    fn remember(&mut self, tokens: &[u32]) {
        let sequence = self.open();
        let known = self.adopt(sequence, tokens);
        assert!(self.feed(sequence, &tokens[known..]));
        self.publish(sequence);
        self.close(sequence);
    }

    fn close(&mut self, sequence: usize) {
        self.sequences.remove(sequence).truncate(0, &mut self.cache.pool);
    }

    fn stats(&self) -> PrefixStats {
        self.cache.stats()
    }

    /// How much of `tokens` is known.
    fn known(&self, tokens: &[u32]) -> usize {
        self.cache.tree.find(tokens).len()
    }

    /// Everything that must hold between operations.
    fn check(&self) {
        let mut owners = BTreeMap::<PageId, usize>::new();
        for state in &self.sequences {
            assert_eq!(state.pages().len(), state.len().div_ceil(PAGE));
            for (position, row) in expected(state.tokens()).into_iter().enumerate() {
                let page = state.pages()[position / PAGE];
                assert_eq!(self.rows.0[page as usize][position % PAGE], row, "position {position}");
            }
            state.pages().iter().for_each(|&page| *owners.entry(page).or_default() += 1);
        }
        let held: BTreeSet<PageId> = owners.keys().copied().collect();
        self.check_tree(&mut owners);
        let (pool, stats) = (&self.cache.pool, self.stats());
        owners.iter().for_each(|(&page, &count)| assert_eq!(pool.owners(page), count, "page {page}"));
        assert_eq!(stats.free_pages, stats.total_pages - owners.len());
        assert_eq!(stats.idle_pages, owners.len() - held.len());
        assert!(stats.parked_bytes <= stats.budget, "{stats:?}");
        assert_eq!(stats.parked_bytes, Bytes::of(stats.parked_pages, PAGE_BYTES));
    }

    fn check_tree(&self, owners: &mut BTreeMap<PageId, usize>) {
        let tree = &self.cache.tree;
        let (mut leaves, mut parked_leaves) = (BTreeSet::new(), BTreeSet::new());
        let (mut resident, mut parked) = (0, 0);
        let mut next = vec![(ROOT, Vec::new())];
        while let Some((id, before)) = next.pop() {
            let node = &tree.nodes[id];
            let tokens = [before, node.tokens().to_vec()].concat();
            assert!(node.children.is_empty() || id == ROOT || node.tokens().len() == PAGE);
            for pair in node.children.windows(2) {
                let (a, b) = (tree.nodes[pair[0]].tokens(), tree.nodes[pair[1]].tokens());
                assert!(a < b && !b.starts_with(a), "{a:?} beside {b:?}");
            }
            let in_pool = |id: &&u32| tree.nodes[**id].is_resident();
            assert_eq!(node.resident_children, node.children.iter().filter(in_pool).count());
            for &child in &node.children {
                assert_eq!(tree.nodes[child].parent, id);
                assert!(!tree.nodes[child].tokens().is_empty());
                next.push((child, tokens.clone()));
            }
            let rows = match &node.place {
                Place::None => {
                    assert_eq!(id, ROOT);
                    continue;
                }
                Place::Resident(page) => {
                    resident += 1;
                    *owners.entry(*page).or_default() += 1;
                    assert!(node.parent == ROOT || tree.nodes[node.parent].is_resident());
                    if node.resident_children == 0 {
                        leaves.insert((node.last_use, id));
                    }
                    self.rows.0[*page as usize]
                }
                Place::Parked { bytes, .. } => {
                    parked += 1;
                    if node.children.is_empty() {
                        parked_leaves.insert((node.last_use, id));
                    }
                    rows_of(bytes)
                }
            };
            let start = tokens.len() - node.tokens().len();
            assert_eq!(rows[..node.tokens().len()], expected(&tokens)[start..], "node {id}");
        }
        assert_eq!((resident, parked), (tree.stats.resident_pages, tree.stats.parked_pages));
        assert_eq!((&leaves, &parked_leaves), (&tree.leaves, &tree.parked_leaves));
        assert_eq!(tree.nodes.iter().count(), resident + parked, "nodes that nothing leads to");
    }
}
