//! Memory of a card for experts that come and go.

use bloomery_gguf::Format;
use bloomery_kernels::cuda::{Buffer, CudaError, Device, Pack, Span, WeightStack};

use super::layers::RoutedLayer;
use crate::plan::SlotPool;
use crate::weights::Weights;

/// A matrix of an expert: what it is made of, and its bytes in the file and on the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) format: Format,
    pub(super) rows: usize,
    pub(super) cols: usize,
}

impl Shape {
    pub(super) fn file_bytes(&self) -> usize {
        self.rows * (self.cols / self.format.block_len() * self.format.block_bytes())
    }

    pub(super) fn is_tiled(&self) -> bool {
        Pack::has_tiles(self.format)
    }

    pub(super) fn card_bytes(&self) -> usize {
        match self.is_tiled() {
            true => Pack::bytes(self.format, 1, self.rows, self.cols),
            false => self.file_bytes(),
        }
    }
}

/// Gate, up or down of as many experts as there are slots.
#[derive(Debug)]
pub(super) struct Bank {
    pub(super) shape: Shape,
    memory: Buffer<u8>,
    pub(super) stack: WeightStack,
}

impl Bank {
    fn new(device: &Device, shape: Shape, count: usize) -> Result<Self, CudaError> {
        let Shape { format, rows, cols } = shape;
        let memory = device.alloc(count * shape.card_bytes())?;
        let stack = match shape.is_tiled() {
            true => WeightStack::tiles(format, count, rows, cols, memory.span())?,
            false => WeightStack::new(format, count, rows, cols, memory.span())?,
        };
        Ok(Self { shape, memory, stack })
    }

    /// The memory of `count` slots from `first` on.
    pub(super) fn slots(&self, first: usize, count: usize) -> Result<Span<u8>, CudaError> {
        let one = self.shape.card_bytes();
        self.memory.slice(first * one..(first + count) * one)
    }
}

/// Slots for experts of one shape. Those that experts live in come first, with spare ones that they move to; then come two
/// halves that prompts stream through.
#[derive(Debug)]
pub(in crate::backend::cuda) struct Pool {
    pub(super) banks: [Bank; 3],
    /// Slots that experts live in or move to.
    homes: usize,
    /// Slots of a half.
    pub(super) half: usize,
}

impl Pool {
    pub(super) fn new(
        device: &Device,
        pool: SlotPool,
        spare: usize,
        layer: &RoutedLayer,
        weights: &Weights,
    ) -> Result<Self, CudaError> {
        let shape = |id| Shape {
            format: weights.stack_format(id),
            rows: weights.stack_rows(id),
            cols: weights.stack_cols(id),
        };
        let (homes, half) = (pool.slots + spare, (pool.ring - spare) / 2);
        let bank = |id| Bank::new(device, shape(id), homes + 2 * half);
        let [gate, up, down] = layer.ids();
        Ok(Self { banks: [bank(gate)?, bank(up)?, bank(down)?], homes, half })
    }

    pub(super) fn has_slots(&self) -> bool {
        self.homes + self.half > 0
    }

    /// First slot of a half, 0 or 1.
    pub(super) fn first_of(&self, half: usize) -> usize {
        self.homes + half * self.half
    }

    pub(super) fn stacks(&self) -> [WeightStack; 3] {
        [0, 1, 2].map(|i: usize| self.banks[i].stack.clone())
    }
}

/// Of a ring's slots, those that single experts move to; the others are for streams. At most half of them are on their way at
/// once, for two steps: 16 moves a step.
pub(super) fn spare(ring: usize) -> usize {
    (ring / 4).min(64)
}
