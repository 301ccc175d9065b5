//! Experts on their way to slots: from host memory as they lie in the file, then into tiles.
//!
//! ```text
//! copies    gate 0..4 | gate 4..8 | up 0..4 | ...        the bus is never idle
//! stream              | tiles     | tiles   | tiles ..
//! ```
//!
//! Both are urgent streams: kernels of steps may be waiting, and tiles that queue behind a long product would keep the bus waiting.

use std::sync::Arc;

use bloomery_gguf::{Gguf, Tensor};
use bloomery_kernels::cuda::{Buffer, CudaError, Device, Event, Pack, Span, Stream};

use super::layers::RoutedLayer;
use super::slots::{Bank, Pool, Shape};
use super::source::Source;
use crate::weights::{StackId, Weights};

/// See above.
#[derive(Debug)]
pub(super) struct Copier {
    /// What is queued behind this has everything that was brought.
    pub(super) stream: Stream,
    copies: Stream,
    /// Of the stream that the other one waits for.
    reached: Event,
    source: Source,
    landings: [Landing; 2],
    /// The landing whose turn it is.
    turn: usize,
    /// Bytes brought so far, as they lie in the file.
    pub(super) bytes: u64,
}

/// Where matrices arrive before they become tiles.
#[derive(Debug)]
struct Landing {
    memory: Buffer<u8>,
    /// When those before have become tiles.
    free: Event,
}

impl Copier {
    /// Loads the kernels, too: the driver loads one when the card is idle, which it is not when a step waits for its experts.
    pub(super) fn new(
        device: &Device,
        (gguf, tables): (&Arc<Gguf>, &[&Tensor]),
        weights: &Weights,
        layers: &[RoutedLayer],
        pools: &[Pool],
    ) -> Result<Self, CudaError> {
        // Both have as much as the longest matrices of half a ring, which is what waves bring.
        let room = |pool: &Pool| {
            let most = pool.banks.iter().map(|bank| bank.shape.file_bytes()).max().unwrap_or(0);
            most * pool.half.div_ceil(2).max(1)
        };
        let room = pools.iter().map(room).max().unwrap_or(0);
        let (mut stream, copies) = (device.urgent_stream()?, device.urgent_stream()?);
        let mut landing = || Ok(Landing { memory: device.alloc(room)?, free: stream.mark()? });
        let landings: [Landing; 2] = [landing()?, landing()?];
        for bank in pools.iter().filter(|pool| pool.has_slots()).flat_map(|pool| &pool.banks) {
            if bank.shape.is_tiled() {
                let from = landings[0].memory.slice(0..bank.shape.file_bytes())?;
                pack(bank.shape, 1, (from, bank.slots(0, 1)?)).launch(device.info())?.load(device)?;
            }
        }
        let stacks = layers.iter().flat_map(RoutedLayer::ids);
        let source = Source::new(device, (gguf, tables), weights, stacks)?;
        let reached = stream.mark()?;
        Ok(Self { stream, copies, reached, source, landings, turn: 0, bytes: 0 })
    }

    /// Queues bringing `experts` of a layer, ascending, to the slots of `pool` from `slot` on.
    pub(super) fn bring(
        &mut self,
        weights: &Weights,
        ids: [StackId; 3],
        experts: &[u32],
        (pool, slot): (&Pool, usize),
    ) -> Result<(), CudaError> {
        for (bank, id) in pool.banks.iter().zip(ids) {
            let one = bank.shape.file_bytes();
            if !bank.shape.is_tiled() {
                // They arrive where they stay, which the stream may still wait to be free.
                self.stream.mark_again(&mut self.reached)?;
                self.copies.wait(&self.reached)?;
                self.copy(weights, (id, experts), &bank.slots(slot, experts.len())?, one)?;
                continue;
            }
            let mut slot = slot;
            for part in experts.chunks((self.landings[0].memory.len() / one).max(1)) {
                self.tile(weights, (id, part), (bank, slot))?;
                slot += part.len();
            }
        }
        Ok(())
    }

    /// Matrices that become tiles.
    fn tile(
        &mut self,
        weights: &Weights,
        (id, experts): (StackId, &[u32]),
        (bank, slot): (&Bank, usize),
    ) -> Result<(), CudaError> {
        let (turn, one) = (self.turn, bank.shape.file_bytes());
        self.turn = 1 - turn;
        self.copies.wait(&self.landings[turn].free)?;
        let from = self.landings[turn].memory.slice(0..experts.len() * one)?;
        self.copy(weights, (id, experts), &from, one)?;
        let tiles = pack(bank.shape, experts.len(), (from, bank.slots(slot, experts.len())?));
        self.stream.launch(&tiles.launch(self.stream.device().info())?)?;
        self.stream.mark_again(&mut self.landings[turn].free)
    }

    /// Copies experts of `one` bytes; the stream waits for them.
    fn copy(
        &mut self,
        weights: &Weights,
        (id, experts): (StackId, &[u32]),
        to: &Span<u8>,
        one: usize,
    ) -> Result<(), CudaError> {
        let mut at = 0;
        for run in experts.chunk_by(|a, b| a + 1 == *b) {
            let (first, count) = (run[0] as usize, run.len());
            let part = to.slice(at * one..(at + count) * one)?;
            self.source.copy(&mut self.copies, weights, (id, first..first + count), &part)?;
            at += count;
        }
        self.bytes += (experts.len() * one) as u64;
        self.copies.mark_again(&mut self.reached)?;
        self.stream.wait(&self.reached)
    }

    /// The moment when everything queued so far has arrived.
    pub(super) fn arrival(&mut self) -> Result<Event, CudaError> {
        self.stream.mark()
    }
}

fn pack(shape: Shape, count: usize, (from, to): (Span<u8>, Span<u8>)) -> Pack {
    let Shape { format, rows, cols } = shape;
    Pack { format, count, rows, cols, from, to }
}
