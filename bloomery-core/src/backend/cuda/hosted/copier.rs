//! Experts on their way to slots: from host memory as they lie in the file, then into tiles. All of it has a stream of its own, so
//! that steps do not wait.

use std::sync::Arc;

use bloomery_gguf::{Gguf, Tensor};
use bloomery_kernels::cuda::{Buffer, CudaError, Device, Event, Pack, Stream};

use super::layers::RoutedLayer;
use super::slots::Pool;
use super::source::Source;
use crate::weights::{StackId, Weights};

/// See above.
#[derive(Debug)]
pub(super) struct Copier {
    pub(super) stream: Stream,
    source: Source,
    /// Where matrices arrive before they become tiles: as many as are brought at a time.
    staging: Buffer<u8>,
    /// Bytes brought so far, as they lie in the file.
    pub(super) bytes: u64,
}

impl Copier {
    /// `most` experts of any pool are brought at a time.
    pub(super) fn new(
        device: &Device,
        (gguf, tables): (&Arc<Gguf>, &[&Tensor]),
        weights: &Weights,
        layers: &[RoutedLayer],
        pools: &[Pool],
    ) -> Result<Self, CudaError> {
        let room = |pool: &Pool| {
            let most = pool.banks.iter().map(|bank| bank.shape.file_bytes()).max().unwrap_or(0);
            most * pool.half.max(1)
        };
        let staging = device.alloc(pools.iter().map(room).max().unwrap_or(0))?;
        let stacks = layers.iter().flat_map(RoutedLayer::ids);
        Ok(Self {
            stream: device.stream()?,
            source: Source::new(device, (gguf, tables), weights, stacks)?,
            staging,
            bytes: 0,
        })
    }

    /// Queues bringing `experts` of a layer, ascending, to the slots of `pool` from `slot` on; no more than a half has.
    pub(super) fn bring(
        &mut self,
        weights: &Weights,
        ids: [StackId; 3],
        experts: &[u32],
        (pool, slot): (&Pool, usize),
    ) -> Result<(), CudaError> {
        for (bank, id) in pool.banks.iter().zip(ids) {
            let (shape, one) = (bank.shape, bank.shape.file_bytes());
            let to = bank.slots(slot, experts.len())?;
            // What needs no tiles arrives where it stays.
            let arrive =
                if shape.is_tiled() { self.staging.slice(0..experts.len() * one)? } else { to.clone() };
            let mut at = 0;
            for run in experts.chunk_by(|a, b| a + 1 == *b) {
                let (first, count) = (run[0] as usize, run.len());
                let part = arrive.slice(at * one..(at + count) * one)?;
                self.source.copy(&mut self.stream, weights, (id, first..first + count), &part)?;
                at += count;
            }
            self.bytes += (experts.len() * one) as u64;
            if shape.is_tiled() {
                let (format, rows, cols) = (shape.format, shape.rows, shape.cols);
                let pack = Pack { format, count: experts.len(), rows, cols, from: arrive, to };
                let launch = pack.launch(self.stream.device().info())?;
                self.stream.launch(&launch)?;
            }
        }
        Ok(())
    }

    /// The moment when everything queued so far has arrived.
    pub(super) fn arrival(&mut self) -> Result<Event, CudaError> {
        self.stream.mark()
    }
}
