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
        Ok(Some(Self { tables, found, numbers: memory }))
    }

    /// Reads a step's rows and queues their copies.
    pub(super) fn send(&mut self, stream: &mut Stream, batch: &Batch<'_>) -> Result<(), EngineError> {
        let Self { tables, found, .. } = self;
        let ids = tables.ask(batch);
        for (at, (ids, (.., upload))) in ids.iter().zip(found).enumerate() {
            let mut read = Ok(());
            let bytes = ids.len() * tables.row_bytes(NgramId(at));
            upload.send_made(stream, bytes, |to| read = tables.read(NgramId(at), ids, to))?;
            read?;
        }
        tables.foresee(batch);
        Ok(())
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
