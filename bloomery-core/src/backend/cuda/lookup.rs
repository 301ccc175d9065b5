//! Rows of the table of n-grams on their way to the card: those of a step, as the file stores them. The table itself, which may be
//! larger than the model, stays in the file.

use std::sync::Arc;
use std::thread;

use bloomery_gguf::{Gguf, Tensor};
use bloomery_kernels::cuda::{Buffer, CudaError, Span, Stream, Upload, Weight};

use super::ops::ngrams;
use super::sizes::Sizes;
use crate::backend::Batch;
use crate::def::Ngrams;
use crate::program::Program;
use crate::weights::Weights;

/// Threads that wait for the disk, for steps of many rows.
const READERS: usize = 8;
/// Rows of the table that one of them is worth.
const ROWS_PER_READER: usize = 512;

/// The rows of the step under way, and where they come from.
pub(super) struct Lookup {
    gguf: Arc<Gguf>,
    table: Tensor,
    hash: Ngrams,
    /// Of a row of the table.
    row_bytes: usize,
    upload: Upload<u8>,
    /// 0, 1, 2, ..: the rows' numbers among those that are there.
    numbers: Buffer<u32>,
}

impl Lookup {
    /// Room for steps of as many rows as `sizes` says, if the program looks n-grams up.
    pub(super) fn new(
        stream: &mut Stream,
        (program, weights, gguf): (&Program, &Weights, &Arc<Gguf>),
        sizes: &Sizes,
    ) -> Result<Option<Self>, CudaError> {
        let Some(layer) = program.ngrams.first() else { return Ok(None) };
        let table =
            weights.packed_matrices(gguf).nth(layer.table.index()).and_then(|table| gguf.tensor(table.name));
        let table = table.expect("a matrix of the program is a tensor of its file").clone();
        let numbers: Vec<u32> = (0..sizes.found_rows as u32).collect();
        let memory = stream.device().alloc(numbers.len())?;
        stream.upload(&numbers, &memory.span())?;
        Ok(Some(Self {
            gguf: gguf.clone(),
            table,
            hash: layer.hash.clone(),
            row_bytes: ngrams::row_bytes(layer, weights),
            upload: Upload::new(stream, sizes.found_bytes)?,
            numbers: memory,
        }))
    }

    /// Reads a step's rows and queues their copy.
    pub(super) fn send(&mut self, stream: &mut Stream, batch: &Batch<'_>) -> Result<(), CudaError> {
        let Self { gguf, table, hash, row_bytes, upload, .. } = self;
        let (ids, row_bytes) = (hash.rows(batch), *row_bytes);
        let data = gguf.data(table);
        let place = |id: u32| id as usize * row_bytes..(id as usize + 1) * row_bytes;
        let read = |ids: &[u32], to: &mut [u8]| {
            // All are on their way before the first is waited for.
            ids.iter().for_each(|&id| gguf.prefetch(table, place(id)));
            for (&id, to) in ids.iter().zip(to.chunks_exact_mut(row_bytes)) {
                match data.get(place(id)) {
                    Some(row) => to.copy_from_slice(row),
                    None => to.fill(0),
                }
            }
        };
        upload.send_made(stream, ids.len() * row_bytes, |to| {
            let each = ids.len().div_ceil(READERS).max(ROWS_PER_READER);
            if ids.len() <= each {
                return read(&ids, to);
            }
            thread::scope(|scope| {
                for (ids, to) in ids.chunks(each).zip(to.chunks_mut(each * row_bytes)) {
                    scope.spawn(move || read(ids, to));
                }
            });
        })
    }

    /// The rows of a step of `rows` rows as a table, and their numbers in it.
    pub(super) fn found(&self, rows: usize) -> Result<(Weight, Span<u32>), CudaError> {
        let count = rows * self.hash.heads.len();
        let data = self.upload.span().slice(0..count * self.row_bytes)?;
        let table = Weight::new(self.table.format, count, self.hash.width, data)?;
        Ok((table, self.numbers.slice(0..count)?))
    }
}

impl std::fmt::Debug for Lookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rows of `{}`: {:?}", self.table.name, self.upload)
    }
}
