//! One step: how many rows it has, and where everything of it lies.

use bloomery_kernels::cuda::{CudaError, DeviceInfo, Span};

use super::hosted::{Slots, Way};
use super::inputs::Inputs;
use super::lookup::Lookup;
use super::memory::Memory;
use super::model::Model;
use super::pages::Caches;
use super::sizes::count;
use super::states::States;
use crate::program::{Buffer, Rows};

/// What an op's launches are made of. Everything but the numbers of rows is the same for all steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) info: &'a DeviceInfo,
    pub(super) model: &'a Model,
    pub(super) memory: &'a Memory,
    pub(super) inputs: &'a Inputs,
    pub(super) lookup: Option<&'a Lookup>,
    pub(super) caches: &'a Caches,
    pub(super) states: &'a States,
    /// Where the experts are, if they are not all on the card.
    pub(super) hosted: Option<(&'a Slots, Way<'a>)>,
    pub(super) rows: usize,
    pub(super) outputs: usize,
    /// Where the step's rows begin in buffers of all rows: behind those that stopped at the program's cut.
    pub(super) first: usize,
}

impl Frame<'_> {
    /// Whether every row is an output, so that nothing has to be taken.
    pub(super) fn takes_all(&self) -> bool {
        self.outputs == self.rows
    }

    pub(super) fn rows_of(&self, rows: Rows) -> usize {
        count(rows, self.rows, self.outputs)
    }

    /// The step's rows of a buffer.
    pub(super) fn span(&self, buffer: Buffer) -> Result<Span<f32>, CudaError> {
        self.part(buffer, 0, self.rows_of(buffer.rows))
    }

    /// Some of them.
    pub(super) fn part(&self, buffer: Buffer, first: usize, rows: usize) -> Result<Span<f32>, CudaError> {
        let index = if self.takes_all() { self.model.taken_from(buffer.index) } else { buffer.index };
        let first = match self.model.program.buffers[index].rows {
            Rows::All => self.first + first,
            Rows::Outputs => first,
        };
        self.memory.buffers[index].slice(first * buffer.cols..(first + rows) * buffer.cols)
    }
}
