//! Recurrent states of all delta layers in the memory of a card.

use bloomery_kernels::cuda::{Buffer, CudaError, Device, Span};

use crate::backend::Batch;
use crate::program::{DeltaId, Program};
use crate::state::StateId;

/// For every layer `[slots][values of its part of a state]`.
#[derive(Debug)]
pub(super) struct States {
    layers: Vec<(Buffer<f32>, usize)>,
}

impl States {
    pub(super) fn new(device: &Device, program: &Program, slots: usize) -> Result<Self, CudaError> {
        let layer = |len: usize| Ok((device.alloc(slots * len)?, len));
        let layers = program.deltas.iter().map(|delta| layer(delta.net.state_len()));
        Ok(Self { layers: layers.collect::<Result<_, CudaError>>()? })
    }

    /// All slots of a layer.
    pub(super) fn layer(&self, id: DeltaId) -> Span<f32> {
        self.layers[id.0].0.span()
    }

    /// Bytes of one state over all layers.
    pub(super) fn bytes(&self) -> usize {
        self.layers.iter().map(|(_, len)| 4 * len).sum()
    }

    /// An error unless all states of a step have slots: kernels take a number beyond for none.
    pub(super) fn check(&self, batch: &Batch<'_>) -> Result<(), CudaError> {
        let Some((memory, len)) = self.layers.first() else { return Ok(()) };
        let saved = batch.saves.iter().map(|(_, state)| *state);
        batch.states.iter().copied().flatten().chain(saved).try_for_each(|state| {
            let start = state as usize * len;
            memory.slice(start..start + len).map(drop)
        })
    }

    /// The layers' parts of a state.
    pub(super) fn parts(&self, state: StateId) -> Result<Vec<Span<u8>>, CudaError> {
        let part = |(memory, len): &(Buffer<f32>, usize)| {
            let start = state as usize * len;
            Ok(memory.slice(start..start + len)?.cast())
        };
        self.layers.iter().map(part).collect()
    }
}
