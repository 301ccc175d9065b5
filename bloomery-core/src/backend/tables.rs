//! Tables of n-grams, which may be larger than the model and stay in its file.
//!
//! A token wants tens of rows anywhere in them. All of a step's are asked for before one is waited for, or, if they are many, while the
//! first are read: where they are in memory, asking takes as long as reading. While a part of a prompt runs those of the next are asked
//! for. They are read by system calls then: of rows that few others share a page with, that is cheaper than
//! looking at the mapping, and a disk that fails is an error.

use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bloomery_gguf::{Format, Gguf, GgufError, Tensor};

use super::Batch;
use crate::def::Ngrams;
use crate::program::{NgramId, Program};
use crate::weights::Weights;

/// Threads that read for steps of many rows, at most: as many as there are processors, but no fewer than keep a disk busy.
const READERS: usize = 16;
/// Rows of a table that one of them is worth.
const ROWS_PER_READER: usize = 512;

/// Every table of a program.
pub(super) struct Tables {
    tables: Arc<[Table]>,
    /// Asks for what a step wants.
    ahead: Option<JoinHandle<()>>,
    /// What the next step is thought to want: it was asked for.
    foreseen: Arc<Vec<Vec<u32>>>,
}

/// The table of one layer.
struct Table {
    gguf: Arc<Gguf>,
    tensor: Tensor,
    hash: Ngrams,
    row_bytes: usize,
}

impl Tables {
    pub(super) fn new(program: &Program, weights: &Weights, gguf: &Arc<Gguf>) -> Self {
        let tables = program.ngrams.iter().map(|layer| {
            let tensor = weights.tensor(layer.table).expect("a table is a tensor of its file").clone();
            let (hash, format) = (layer.hash.clone(), tensor.format);
            let row_bytes = hash.width / format.block_len() * format.block_bytes();
            Table { gguf: gguf.clone(), tensor, hash, row_bytes }
        });
        Self { tables: tables.collect(), ahead: None, foreseen: Arc::default() }
    }

    pub(super) fn row_bytes(&self, id: NgramId) -> usize {
        self.tables[id.0].row_bytes
    }

    pub(super) fn format(&self, id: NgramId) -> Format {
        self.tables[id.0].tensor.format
    }

    /// Has the disk read what a step wants, and returns the numbers of its rows in every table.
    pub(super) fn ask(&mut self, batch: &Batch<'_>) -> Arc<Vec<Vec<u32>>> {
        let found = self.rows(batch);
        let foreseen = std::mem::take(&mut self.foreseen);
        if found == *foreseen {
            return foreseen;
        }
        let found = Arc::new(found);
        match found.iter().all(|ids| ids.len() <= ROWS_PER_READER) {
            true => self.tables.iter().zip(&*found).for_each(|(table, ids)| table.ask(ids)),
            false => self.ask_beside(found.clone()),
        }
        found
    }

    /// The numbers of a step's rows in every table.
    pub(super) fn rows(&self, batch: &Batch<'_>) -> Vec<Vec<u32>> {
        self.tables.iter().map(|table| table.hash.rows(batch)).collect()
    }

    /// Has the disk read what the step after this one wants, as far as that is known, while this one runs.
    pub(super) fn foresee(&mut self, batch: &Batch<'_>) {
        if self.tables.is_empty() || batch.following.iter().all(|tokens| tokens.is_empty()) {
            return;
        }
        self.foreseen = Arc::new(self.tables.iter().map(|table| table.hash.following(batch)).collect());
        self.ask_beside(self.foreseen.clone());
    }

    /// Has a thread ask for rows of all tables, after those that were asked for before. One is enough: a row takes it 5 us, a disk 13.
    fn ask_beside(&mut self, rows: Arc<Vec<Vec<u32>>>) {
        let (tables, before) = (self.tables.clone(), self.ahead.take());
        let ask = move || {
            settle(before);
            tables.iter().zip(&*rows).for_each(|(table, ids)| table.ask(ids));
        };
        // Without a thread they are read all the same.
        self.ahead = thread::Builder::new().name("tables".to_owned()).spawn(ask).ok();
    }

    /// Copies rows of a table to `to`, one after the other.
    pub(super) fn read(&self, id: NgramId, ids: &[u32], to: &mut [u8]) -> Result<(), GgufError> {
        let table @ Table { gguf, tensor, row_bytes, .. } = &self.tables[id.0];
        let rows = per_reader(ids.len());
        let parts = ids.chunks(rows).zip(to.chunks_mut(rows * row_bytes));
        share_out(parts, |(ids, to)| {
            let mut rows = ids.iter().zip(to.chunks_exact_mut(*row_bytes));
            rows.try_for_each(|(&id, to)| gguf.read(tensor, table.place(id).start, to))
        })
    }
}

/// Waits for a thread that asks.
fn settle(ahead: Option<JoinHandle<()>>) {
    if let Some(ahead) = ahead {
        // It has nothing to tell.
        let _ = ahead.join();
    }
}

impl Table {
    /// In the order of the file, and what several tokens want once.
    fn ask(&self, ids: &[u32]) {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        ids.iter().for_each(|&id| self.gguf.prefetch(&self.tensor, self.place(id)));
    }

    /// The bytes of a row.
    fn place(&self, id: u32) -> Range<usize> {
        id as usize * self.row_bytes..(id as usize + 1) * self.row_bytes
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        settle(self.ahead.take());
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.tables.iter().map(|table| &table.tensor.name)).finish()
    }
}

/// Rows of a reader's part of `rows`.
fn per_reader(rows: usize) -> usize {
    let readers = thread::available_parallelism().map_or(1, usize::from).clamp(8, READERS);
    rows.div_ceil(readers).max(ROWS_PER_READER)
}

/// Has parts done by a thread each, or here if there is one. Returns the first error.
fn share_out<T: Send, E: Send>(
    mut parts: impl ExactSizeIterator<Item = T>,
    work: impl Fn(T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    if parts.len() <= 1 {
        return parts.try_for_each(work);
    }
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::path::{Path, PathBuf};

    use bloomery_gguf::Writer;

    use super::*;
    use crate::backend::Readback;
    use crate::def::NgramKind;

    const WIDTH: usize = 8;
    const ROWS: u64 = 3000;

    fn hash() -> Ngrams {
        Ngrams {
            layer: 1,
            width: WIDTH,
            multipliers: vec![7919, 104_729, 1_299_709],
            heads: vec![(0, 700), (700, 701), (1401, 709), (2110, 719)],
            boundary: 2,
            cuts: false,
            folded: None,
            kind: NgramKind::Engram,
        }
    }

    /// A table whose values are their places in it.
    fn tables(path: &Path) -> Tables {
        let values = (0..ROWS as usize * WIDTH).flat_map(|at| (at as f32).to_le_bytes());
        let bytes: Vec<u8> = values.collect();
        let mut writer = Writer::new();
        writer.tensor("table", &[WIDTH as u64, ROWS], Format::F32, bytes).unwrap();
        writer.write_file(path).unwrap();
        let gguf = Arc::new(Gguf::open(path).unwrap());
        let tensor = gguf.tensor("table").unwrap().clone();
        let tables = Arc::new([Table { gguf, tensor, hash: hash(), row_bytes: 4 * WIDTH }]);
        Tables { tables, ahead: None, foreseen: Arc::default() }
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("bloomery-{}-{name}.gguf", std::process::id()))
    }

    #[test]
    fn rows_come_in_the_order_of_their_ids() {
        let path = path("order");
        let tables = tables(&path);
        // Of one reader, and of several.
        for count in [0, 1, 24, 512, 513, 5000] {
            let ids: Vec<u32> = (0..count as u32).map(|i| i * 1789 % ROWS as u32).collect();
            tables.tables[0].ask(&ids);
            let mut rows = vec![0; count * 4 * WIDTH];
            tables.read(NgramId(0), &ids, &mut rows).unwrap();
            let values =
                |&id: &u32| (0..WIDTH).flat_map(move |at| ((id as usize * WIDTH + at) as f32).to_le_bytes());
            assert!(rows == ids.iter().flat_map(values).collect::<Vec<u8>>(), "{count} rows");
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_row_that_cannot_be_read_is_an_error_with_its_place() {
        let path = path("cut");
        let tables = tables(&path);
        let start = tables.tables[0].tensor.offset();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(start + 1000 * 4 * WIDTH as u64).unwrap();
        for (ids, bad) in [(vec![5, 999, 1000, 7], 1000), ((0..2000).rev().collect(), 1999)] {
            let error =
                tables.read(NgramId(0), &ids, &mut vec![0; ids.len() * 4 * WIDTH]).unwrap_err().to_string();
            let place = format!("offset {} ", start + bad * 4 * WIDTH as u64);
            assert!(error.contains(path.to_str().unwrap()) && error.contains(&place), "{error}");
        }
        let error = tables.read(NgramId(0), &[ROWS as u32], &mut [0; 4 * WIDTH]).unwrap_err().to_string();
        assert!(error.contains("the tensor ends before"), "{error}");
        fs::remove_file(path).unwrap();
    }

    /// Rows of a step of parts of two sequences, and of what follows.
    fn step(before: &[&[u32]], parts: [&[u32]; 2], following: &[&[u32]]) -> [Vec<u32>; 2] {
        let tokens = parts.concat();
        let sequences: Vec<usize> =
            parts.iter().enumerate().flat_map(|(at, part)| std::iter::repeat_n(at, part.len())).collect();
        let batch = Batch {
            tokens: &tokens,
            positions: &[],
            sequences: &sequences,
            before,
            following,
            pages: &[],
            states: &[],
            saves: &[],
            outputs: &[],
            want: Readback::Logits,
            deep: None,
            trace: None,
            stages: None,
        };
        [hash().rows(&batch), hash().following(&batch)]
    }

    #[test]
    fn what_is_foreseen_is_what_the_next_step_finds() {
        let (one, two): (Vec<u32>, Vec<u32>) = ((10..40).collect(), (50..90).rev().collect());
        for cut in [[1, 1], [2, 7], [9, 3]] {
            let [a, b] = cut;
            let next = [&one[a..a + 4], &two[b..b + 5]];
            let [_, foreseen] = step(&[&[3], &[]], [&one[..a], &two[..b]], &next);
            let before = [&[&[3], &one[..a]].concat()[..], &two[..b]];
            let [found, nothing] = step(&before, next, &[]);
            assert_eq!(foreseen, found, "{cut:?}");
            assert!(nothing.is_empty());
        }
    }
}
