//! A backend whose rows and states tell which beginning they are of, and that refuses steps that do not fit them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::backend::{Answer, Backend, Batch, Readback};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::plan::{Context, ModelSource};
use crate::prefix::PrefixCache;
use crate::state::{PAGE, PageId, StateId, StatePool};
use crate::units::Bytes;

pub(super) const PAGE_BYTES: usize = PAGE * size_of::<u64>();
pub(super) const STATE_BYTES: usize = 2 * size_of::<u64>();
const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// The state after a beginning: a hash of all of it.
pub(super) fn hash_of(tokens: &[u32]) -> u64 {
    tokens.iter().fold(SEED, |hash, &token| next(hash, token))
}

fn next(hash: u64, token: u32) -> u64 {
    (hash ^ u64::from(token)).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
}

/// Logits that hold all of the hash, and prefer to go on in circles.
pub(super) fn logits_of(tokens: &[u32], vocab: usize) -> Vec<f32> {
    logits(hash_of(tokens), tokens.last().copied().unwrap_or(0), vocab)
}

fn logits(hash: u64, token: u32, vocab: usize) -> Vec<f32> {
    let mut row = vec![0.0; vocab];
    row.iter_mut().zip(0..4).for_each(|(x, part)| *x = (hash >> (16 * part) & 0xffff) as f32 * 1e-6);
    let favourite = if hash.is_multiple_of(7) { hash % 1000 } else { u64::from(token * 5 + 3) % 23 };
    row[300 + favourite as usize] = 1.0;
    row
}

/// Counts of what was done, and steps until one fails.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) rows: AtomicUsize,
    pub(super) steps: AtomicUsize,
    pub(super) saves: AtomicUsize,
    pub(super) fuse: AtomicUsize,
}

pub(super) struct Hybrid {
    pages: Vec<[u64; PAGE]>,
    /// Length and hash.
    pub(super) states: Vec<(u64, u64)>,
    vocab: usize,
    answer: Vec<f32>,
    counts: Arc<Counts>,
}

/// What an engine has room for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) sessions: usize,
    pub(super) pages: usize,
    pub(super) slots: usize,
    pub(super) reserve: usize,
    pub(super) parked: usize,
    pub(super) step_rows: usize,
}

impl Room {
    pub(super) fn of(sessions: usize) -> Self {
        Self { sessions, pages: sessions * 80, slots: 20 * sessions, reserve: 8, parked: 0, step_rows: 100 }
    }
}

/// An engine on a backend of that kind.
pub(super) fn engine(room: Room) -> (Engine, Arc<Counts>) {
    let builder = Engine::builder(ModelSource::demo()).sessions(room.sessions).step_rows(room.step_rows);
    let builder = builder.context(Context::Tokens(80 * PAGE));
    let engine = builder.plan().unwrap().load(|_| {}).unwrap();
    let counts = furnish(&engine, room);
    (engine, counts)
}

/// Gives an engine without sessions another room.
pub(super) fn furnish(engine: &Engine, room: Room) -> Arc<Counts> {
    let counts = Arc::new(Counts::default());
    let mut backend = engine.inner.backend().unwrap();
    *backend = Box::new(Hybrid {
        pages: vec![[0; PAGE]; room.pages],
        states: vec![(u64::MAX, 0); room.slots],
        vocab: engine.model().vocab,
        answer: Vec::new(),
        counts: Arc::clone(&counts),
    });
    let states = StatePool::new(room.slots as u32, room.reserve);
    *engine.inner.cache() = PrefixCache::new(room.pages as u32, states, Bytes(room.parked as u64));
    counts
}

impl Hybrid {
    /// Checks what a step is given before it is run.
    fn check(&self, batch: &Batch<'_>) {
        assert_eq!(batch.states.len(), batch.pages.len());
        assert!(batch.saves.is_sorted_by(|a, b| a.0 < b.0), "{:?}", batch.saves);
        let written: BTreeSet<StateId> = batch.saves.iter().map(|save| save.1).collect();
        assert_eq!(written.len(), batch.saves.len(), "two rows write one slot: {:?}", batch.saves);
        for (sequence, from) in batch.states.iter().enumerate() {
            let rows = || (0..batch.tokens.len()).filter(|&row| batch.sequences[row] == sequence);
            let (first, last) = (rows().next().unwrap(), rows().next_back().unwrap());
            let position = u64::from(batch.positions[first]);
            let (len, hash) = from.map_or((0, SEED), |from| self.states[from as usize]);
            assert_eq!(len, position, "sequence {sequence} goes on from another position's state");
            if let Some(before) = (position as usize).checked_sub(1) {
                let page = batch.pages[sequence][before / PAGE];
                assert_eq!(self.pages[page as usize][before % PAGE], hash, "the state of another text");
            }
            let save = |row: usize| batch.saves.iter().find(|save| save.0 == row).map(|save| save.1);
            assert!(save(last).is_some(), "the last row of sequence {sequence} is not saved");
            if let Some(from) = from.filter(|from| written.contains(from)) {
                assert_eq!(save(last), Some(from), "a state is written before it is read");
            }
        }
    }
}

impl Backend for Hybrid {
    fn step(&mut self, batch: Batch<'_>) -> Result<Answer<'_>, EngineError> {
        self.check(&batch);
        let from = |from: &Option<StateId>| from.map_or(SEED, |from| self.states[from as usize].1);
        let mut hashes: Vec<u64> = batch.states.iter().map(from).collect();
        let fails = self.counts.fuse.load(Ordering::Relaxed);
        self.counts.fuse.store(fails.saturating_sub(1), Ordering::Relaxed);
        let mut saves = batch.saves.iter().peekable();
        self.answer.clear();
        for row in 0..batch.tokens.len() {
            let (sequence, position) = (batch.sequences[row], batch.positions[row] as usize);
            let hash = next(hashes[sequence], batch.tokens[row]);
            hashes[sequence] = hash;
            self.pages[batch.pages[sequence][position / PAGE] as usize][position % PAGE] = hash;
            if let Some(&(_, slot)) = saves.next_if(|save| save.0 == row) {
                // A step that fails leaves anything.
                let stored = if fails == 1 { (u64::MAX, 0) } else { (position as u64 + 1, hash) };
                self.states[slot as usize] = stored;
            }
            if batch.outputs.contains(&row) {
                assert!(batch.want != Readback::Hidden);
                self.answer.extend(logits(hash, batch.tokens[row], self.vocab));
            }
        }
        if fails == 1 {
            return Err(EngineError::Stopped);
        }
        self.counts.rows.fetch_add(batch.tokens.len(), Ordering::Relaxed);
        self.counts.saves.fetch_add(batch.saves.len(), Ordering::Relaxed);
        self.counts.steps.fetch_add(1, Ordering::Relaxed);
        Ok(Answer::Rows(&self.answer))
    }

    fn copy_page(&mut self, from: PageId, to: PageId) {
        self.pages[to as usize] = self.pages[from as usize];
    }

    fn read_page(&mut self, page: PageId, out: &mut Vec<u8>) {
        self.pages[page as usize].iter().for_each(|row| out.extend_from_slice(&row.to_le_bytes()));
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        let rows = self.pages[page as usize].iter_mut().zip(bytes.as_chunks().0);
        rows.for_each(|(row, bytes)| *row = u64::from_le_bytes(*bytes));
    }

    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }

    fn state_bytes(&self) -> usize {
        STATE_BYTES
    }

    fn read_state(&mut self, state: StateId, out: &mut Vec<u8>) {
        let (len, hash) = self.states[state as usize];
        out.extend([len, hash].iter().flat_map(|word| word.to_le_bytes()));
    }

    fn write_state(&mut self, state: StateId, bytes: &[u8]) {
        self.states[state as usize] = words(bytes);
    }
}

/// A state that was read.
pub(super) fn words(bytes: &[u8]) -> (u64, u64) {
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    (words[0], words[1])
}
