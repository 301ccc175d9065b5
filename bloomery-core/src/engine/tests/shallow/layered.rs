//! A backend with a cut, whose rows tell which beginning they are of, and whose layers behind the cut have windows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::backend::{Answer, Backend, Batch, Deep};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::plan::{Context, ModelSource};
use crate::prefix::PrefixCache;
use crate::program::Narrow;
use crate::state::{PAGE, PageId, StatePool};
use crate::units::Bytes;

/// Layers behind the cut.
pub(super) const LAYERS: usize = 3;
pub(super) const WINDOW: usize = 12;
pub(super) const NARROW: Narrow = Narrow {
    at: 1,
    routed: 0,
    depth: LAYERS * (WINDOW - 1) + 1,
    reach: WINDOW - 1,
    ramp: PAGE,
    looks_up: false,
};
const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const ROW: usize = 1 + LAYERS;
pub(super) const PAGE_BYTES: usize = PAGE * ROW * size_of::<u64>();

fn next(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
}

/// What a row leaves in the cache: a hash of its beginning, and a key for each layer behind the cut.
type Row = [u64; ROW];

/// A row behind the cut, by the rows of its text so far. Returns its result.
fn deepen(rows: &mut [Row]) -> u64 {
    let (last, mut x) = (rows.len() - 1, rows[rows.len() - 1][0]);
    for layer in 1..=LAYERS {
        rows[last][layer] = next(x, layer as u64);
        x = rows[(last + 1).saturating_sub(WINDOW)..].iter().fold(x, |x, row| next(x, row[layer]));
    }
    x
}

/// The results of all rows of a text.
pub(super) fn results_of(tokens: &[u32]) -> Vec<u64> {
    let mut rows: Vec<Row> = Vec::with_capacity(tokens.len());
    let each = tokens.iter().map(|&token| {
        let before = rows.last().map_or(SEED, |row| row[0]);
        rows.push([next(before, u64::from(token)), 0, 0, 0]);
        deepen(&mut rows)
    });
    each.collect()
}

/// Logits that hold all of a result.
pub(super) fn logits_of(result: u64, vocab: usize) -> Vec<f32> {
    let mut row = vec![0.0; vocab];
    row.iter_mut().zip(0..4).for_each(|(x, part)| *x = (result >> (16 * part) & 0xffff) as f32);
    row
}

/// Counts of what was done, and steps until one fails.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) rows: AtomicUsize,
    pub(super) deep: AtomicUsize,
    pub(super) fuse: AtomicUsize,
}

impl Counts {
    /// Rows, and those of them that went past the cut.
    pub(super) fn take(&self) -> (usize, usize) {
        (self.rows.swap(0, Ordering::Relaxed), self.deep.swap(0, Ordering::Relaxed))
    }
}

struct Layered {
    pages: Vec<[Row; PAGE]>,
    vocab: usize,
    answer: Vec<f32>,
    counts: Arc<Counts>,
}

/// What an engine has room for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) sessions: usize,
    pub(super) pages: usize,
    pub(super) parked: usize,
    pub(super) step_rows: usize,
}

impl Room {
    pub(super) fn of(sessions: usize) -> Self {
        Self { sessions, pages: sessions * 80, parked: 0, step_rows: 200 }
    }
}

/// An engine on a backend of that kind.
pub(super) fn engine(room: Room) -> (Engine, Arc<Counts>) {
    let builder = Engine::builder(ModelSource::demo()).sessions(room.sessions).step_rows(room.step_rows);
    let builder = builder.context(Context::Tokens(80 * PAGE));
    let mut engine = builder.plan().unwrap().load(|_| {}).unwrap();
    Arc::get_mut(&mut engine.inner).unwrap().narrow = Some(NARROW);
    let counts = furnish(&engine, room);
    (engine, counts)
}

/// Gives an engine without sessions another room.
pub(super) fn furnish(engine: &Engine, room: Room) -> Arc<Counts> {
    let counts = Arc::new(Counts::default());
    let mut backend = engine.inner.backend().unwrap();
    // Rows that nobody wrote are those of no text.
    let pages = vec![[[0x5eed; ROW]; PAGE]; room.pages];
    let vocab = engine.model().vocab;
    *backend = Box::new(Layered { pages, vocab, answer: Vec::new(), counts: Arc::clone(&counts) });
    let states = StatePool::new(0, 0);
    *engine.inner.cache() = PrefixCache::new(room.pages as u32, states, Bytes(room.parked as u64));
    counts
}

impl Layered {
    /// The rows of a sequence up to a position.
    fn rows(&self, pages: &[PageId], position: usize) -> Vec<Row> {
        (0..=position).map(|at| self.pages[pages[at / PAGE] as usize][at % PAGE]).collect()
    }

    fn check(batch: &Batch<'_>, deep: &Deep<'_>) {
        assert!(deep.first > 0 && deep.first <= batch.tokens.len());
        assert!(batch.outputs.iter().all(|&row| row >= deep.first), "a shallow row is wanted");
        let outputs: Vec<usize> = deep.outputs.iter().map(|row| row + deep.first).collect();
        assert_eq!(outputs, batch.outputs);
        for row in deep.first..batch.tokens.len() {
            let (sequence, position) = (batch.sequences[row], batch.positions[row] as usize);
            if row == deep.first || batch.sequences[row - 1] != sequence {
                assert_eq!(deep.before[sequence].len(), position);
            }
        }
    }
}

impl Backend for Layered {
    fn step(&mut self, batch: Batch<'_>) -> Result<Answer<'_>, EngineError> {
        if let Some(deep) = &batch.deep {
            Self::check(&batch, deep);
        }
        let first = batch.deep.map_or(0, |deep| deep.first);
        let fails = self.counts.fuse.load(Ordering::Relaxed);
        self.counts.fuse.store(fails.saturating_sub(1), Ordering::Relaxed);
        let place = |row: usize| (batch.pages[batch.sequences[row]], batch.positions[row] as usize);
        if fails == 1 {
            // Anything may be left then.
            for (pages, position) in (0..batch.tokens.len()).map(place) {
                self.pages[pages[position / PAGE] as usize][position % PAGE] = [0xdead; ROW];
            }
            return Err(EngineError::Stopped);
        }
        for row in 0..batch.tokens.len() {
            let (pages, position) = place(row);
            let before = |at: usize| self.pages[pages[at / PAGE] as usize][at % PAGE][0];
            let hash = next(position.checked_sub(1).map_or(SEED, before), u64::from(batch.tokens[row]));
            self.pages[pages[position / PAGE] as usize][position % PAGE][0] = hash;
        }
        self.answer.clear();
        for row in first..batch.tokens.len() {
            let (pages, position) = place(row);
            let mut rows = self.rows(pages, position);
            let result = deepen(&mut rows);
            self.pages[pages[position / PAGE] as usize][position % PAGE] = rows[position];
            if batch.outputs.contains(&row) {
                self.answer.extend(logits_of(result, self.vocab));
            }
        }
        self.counts.rows.fetch_add(batch.tokens.len(), Ordering::Relaxed);
        self.counts.deep.fetch_add(batch.tokens.len() - first, Ordering::Relaxed);
        Ok(Answer::Rows(&self.answer))
    }

    fn copy_page(&mut self, from: PageId, to: PageId) {
        self.pages[to as usize] = self.pages[from as usize];
    }

    fn read_page(&mut self, page: PageId, out: &mut Vec<u8>) {
        self.pages[page as usize]
            .as_flattened()
            .iter()
            .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        let words = self.pages[page as usize].as_flattened_mut().iter_mut().zip(bytes.as_chunks().0);
        words.for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    }

    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }
}
