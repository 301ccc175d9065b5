//! Rows of the tables of n-grams on their way to the card: those of a step, as the file stores them.

use std::sync::Arc;

use bloomery_gguf::Gguf;
use bloomery_kernels::cuda::{Buffer, CudaError, Span, Stream, Upload, Weight};

use super::ops::ngrams;
use super::sizes::Sizes;
use crate::backend::Batch;
use crate::backend::tables::Tables;
use crate::error::EngineError;
use crate::program::{NgramId, NgramLayer, Program};
use crate::weights::Weights;

/// The rows of the step under way, and where they come from.
pub(super) struct Lookup {
    tables: Tables,
    /// Of every layer that looks n-grams up: heads, width of a row, and what a step found.
    found: Vec<(usize, usize, Upload<u8>)>,
    /// Of every such layer the numbers of the step's rows, until they are sent.
    wanted: Wanted,
    /// 0, 1, 2, ..: the rows' numbers among those that are there.
    numbers: Buffer<u32>,
}

/// The numbers of rows of every table, and whether they are still to be read.
#[derive(Debug, Default)]
struct Wanted {
    rows: Arc<Vec<Vec<u32>>>,
    taken: Vec<bool>,
}

impl Wanted {
    fn new(rows: Arc<Vec<Vec<u32>>>) -> Self {
        Self { taken: vec![false; rows.len()], rows }
    }

    /// Rows of one table, once.
    fn take(&mut self, id: NgramId) -> Option<&[u32]> {
        let taken = self.taken.get_mut(id.0)?;
        (!std::mem::replace(taken, true)).then(|| &self.rows[id.0][..])
    }
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
        let tables = Tables::new(program, weights, gguf);
        let found = |(at, layer): (usize, &NgramLayer)| {
            let bytes = ngrams::found_rows(layer, sizes.rows) * tables.row_bytes(NgramId(at));
            Ok((layer.hash.heads.len(), layer.hash.width, Upload::new(stream, bytes)?))
        };
        let found = program.ngrams.iter().enumerate().map(found).collect::<Result<_, CudaError>>()?;
        let numbers: Vec<u32> = (0..sizes.found_rows as u32).collect();
        let memory = stream.device().alloc(numbers.len())?;
        stream.upload(&numbers, &memory.span())?;
        Ok(Some(Self { tables, found, wanted: Wanted::default(), numbers: memory }))
    }

    /// Has the disk read what a step wants of all tables, without waiting for it.
    pub(super) fn ask(&mut self, batch: &Batch<'_>) {
        self.wanted = Wanted::new(self.tables.ask(batch));
    }

    /// Goes on with a part of the step, whose rows were asked for with the others.
    pub(super) fn go_on(&mut self, part: &Batch<'_>) {
        self.wanted = Wanted::new(Arc::new(self.tables.rows(part)));
    }

    /// Reads what the step wants of a table and queues its copy, if that was not done yet. The last copy of the table was another
    /// step's: none of this one's kernels is waited for.
    pub(super) fn find(&mut self, stream: &mut Stream, id: NgramId) -> Result<(), EngineError> {
        let Self { tables, found, wanted, .. } = self;
        let Some(ids) = wanted.take(id) else { return Ok(()) };
        let (.., upload) = &mut found[id.0];
        let mut read = Ok(());
        let bytes = ids.len() * tables.row_bytes(id);
        upload.send_made(stream, bytes, |to| read = tables.read(id, ids, to))?;
        Ok(read?)
    }

    /// The same of all tables, for a step whose kernels are queued in one go.
    pub(super) fn find_all(&mut self, stream: &mut Stream) -> Result<(), EngineError> {
        (0..self.found.len()).try_for_each(|id| self.find(stream, NgramId(id)))
    }

    /// Has the disk read what the next step wants, as far as that is known.
    pub(super) fn foresee(&mut self, batch: &Batch<'_>) {
        self.tables.foresee(batch);
    }

    /// The rows that a layer found in a step of `rows` rows as a table, and their numbers in it.
    pub(super) fn found(&self, id: NgramId, rows: usize) -> Result<(Weight, Span<u32>), CudaError> {
        let (heads, width, upload) = &self.found[id.0];
        let count = rows * heads;
        let data = upload.span().slice(0..count * self.tables.row_bytes(id))?;
        let table = Weight::new(self.tables.format(id), count, *width, data)?;
        Ok((table, self.numbers.slice(0..count)?))
    }
}

impl std::fmt::Debug for Lookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookup").field("tables", &self.tables).field("found", &self.found).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_taken_once_and_anew_for_every_step() {
        let mut wanted = Wanted::default();
        assert_eq!(wanted.take(NgramId(0)), None);
        for step in 0..2 {
            wanted = Wanted::new(Arc::new(vec![vec![step, 7], vec![step + 3]]));
            assert_eq!(wanted.take(NgramId(1)), Some(&[step + 3][..]));
            assert_eq!(wanted.take(NgramId(1)), None);
            // What one step leaves is not the next one's.
            if step == 1 {
                assert_eq!(wanted.take(NgramId(0)), Some(&[1, 7][..]));
            }
        }
        assert_eq!(wanted.take(NgramId(2)), None);
    }
}
