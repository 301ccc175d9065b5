//! Rows of the tables of n-grams on their way to the card: those of a step, as the file stores them. The tables themselves, which may be
//! larger than the model, stay in the file.

use std::sync::Arc;
use std::thread;

use bloomery_gguf::{Gguf, Tensor};
use bloomery_kernels::cuda::{Buffer, CudaError, Span, Stream, Upload, Weight};

use super::ops::ngrams;
use super::sizes::Sizes;
use crate::backend::Batch;
use crate::def::Ngrams;
use crate::program::{NgramId, Program};
use crate::weights::Weights;

/// Threads that wait for the disk, for steps of many rows.
const READERS: usize = 8;
/// Rows of a table that one of them is worth.
const ROWS_PER_READER: usize = 512;

/// The rows of the step under way, and where they come from.
pub(super) struct Lookup {
    gguf: Arc<Gguf>,
    /// Of every layer that looks n-grams up.
    tables: Vec<Table>,
    /// 0, 1, 2, ..: the rows' numbers among those that are there.
    numbers: Buffer<u32>,
}

/// The table of one layer, and what a step found in it.
struct Table {
    tensor: Tensor,
    hash: Ngrams,
    /// Of a row of the table.
    row_bytes: usize,
    upload: Upload<u8>,
}

impl Lookup {
    /// Room for steps of as many rows as `sizes` says, if the program looks n-grams up.
    pub(super) fn new(
        stream: &mut Stream,
        (program, weights, gguf): (&Program, &Weights, &Arc<Gguf>),
        sizes: &Sizes,
    ) -> Result<Option<Self>, CudaError> {
        if program.ngrams.is_empty() {
            return Ok(None);
        }
        let mut tables = Vec::with_capacity(program.ngrams.len());
        for layer in &program.ngrams {
            let packed = weights.packed_matrices(gguf).nth(layer.table.index());
            let tensor = packed.and_then(|packed| gguf.tensor(packed.name));
            let row_bytes = ngrams::row_bytes(layer, weights);
            tables.push(Table {
                tensor: tensor.expect("a matrix of the program is a tensor of its file").clone(),
                hash: layer.hash.clone(),
                row_bytes,
                upload: Upload::new(stream, ngrams::found_rows(layer, sizes.rows) * row_bytes)?,
            });
        }
        let numbers: Vec<u32> = (0..sizes.found_rows as u32).collect();
        let memory = stream.device().alloc(numbers.len())?;
        stream.upload(&numbers, &memory.span())?;
        Ok(Some(Self { gguf: gguf.clone(), tables, numbers: memory }))
    }

    /// Reads a step's rows and queues their copies.
    pub(super) fn send(&mut self, stream: &mut Stream, batch: &Batch<'_>) -> Result<(), CudaError> {
        let Self { gguf, tables, .. } = self;
        let found: Vec<Vec<u32>> = tables.iter().map(|table| table.hash.rows(batch)).collect();
        // All of all tables are on their way before the first is waited for.
        for (table, ids) in tables.iter().zip(&found) {
            let ask = |ids: &[u32]| {
                ids.iter().for_each(|&id| gguf.prefetch(&table.tensor, table.place(id)));
            };
            share_out(ids.chunks(per_reader(ids.len())), ask);
        }
        for (table, ids) in tables.iter_mut().zip(&found) {
            table.send(stream, gguf, ids)?;
        }
        Ok(())
    }

    /// The rows that a layer found in a step of `rows` rows as a table, and their numbers in it.
    pub(super) fn found(&self, id: NgramId, rows: usize) -> Result<(Weight, Span<u32>), CudaError> {
        let Table { tensor, hash, row_bytes, upload } = &self.tables[id.0];
        let count = rows * hash.heads.len();
        let data = upload.span().slice(0..count * row_bytes)?;
        let table = Weight::new(tensor.format, count, hash.width, data)?;
        Ok((table, self.numbers.slice(0..count)?))
    }
}

impl Table {
    /// The bytes of a row.
    fn place(&self, id: u32) -> std::ops::Range<usize> {
        id as usize * self.row_bytes..(id as usize + 1) * self.row_bytes
    }

    fn send(&mut self, stream: &mut Stream, gguf: &Gguf, ids: &[u32]) -> Result<(), CudaError> {
        let (data, each) = (gguf.data(&self.tensor), self.row_bytes);
        let place = |id: u32| id as usize * each..(id as usize + 1) * each;
        self.upload.send_made(stream, ids.len() * each, |to| {
            let rows = per_reader(ids.len());
            share_out(ids.chunks(rows).zip(to.chunks_mut(rows * each)), |(ids, to)| {
                for (&id, to) in ids.iter().zip(to.chunks_exact_mut(each)) {
                    match data.get(place(id)) {
                        Some(row) => to.copy_from_slice(row),
                        None => to.fill(0),
                    }
                }
            });
        })
    }
}

/// Rows of a reader's part of `rows`.
fn per_reader(rows: usize) -> usize {
    rows.div_ceil(READERS).max(ROWS_PER_READER)
}

/// Has parts done by a thread each, or here if there is one.
fn share_out<T: Send>(parts: impl ExactSizeIterator<Item = T>, work: impl Fn(T) + Sync) {
    if parts.len() <= 1 {
        return parts.for_each(work);
    }
    thread::scope(|scope| {
        for part in parts {
            let work = &work;
            scope.spawn(move || work(part));
        }
    });
}

impl std::fmt::Debug for Lookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let table = |table: &Table| (table.tensor.name.clone(), format!("{:?}", table.upload));
        f.debug_map().entries(self.tables.iter().map(table)).finish()
    }
}
