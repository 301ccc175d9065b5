//! Recurrent states in the memory of a card: of all delta layers, of layers of n-grams, and what a block that guesses carries on.

use bloomery_kernels::cuda::{Buffer, CudaError, Device, Span};

use crate::backend::Batch;
use crate::program::{DeltaId, NgramId, NgramLayer, Program};
use crate::state::StateId;

/// For every delta layer `[slots][values of its part of a state]`, then the same of layers of n-grams, of which some keep nothing, and last
/// of the block.
#[derive(Debug)]
pub(super) struct States {
    layers: Vec<(Buffer<f32>, usize)>,
    /// Layers before those of n-grams.
    deltas: usize,
}

impl States {
    pub(super) fn new(device: &Device, program: &Program, slots: usize) -> Result<Self, CudaError> {
        let layer = |len: usize| Ok((device.alloc(slots * len)?, len));
        let carried = program.draft.as_ref().map(|draft| draft.carried).filter(|&carried| carried > 0);
        let window = program.ngrams.iter().map(NgramLayer::state_len);
        let lens = program.deltas.iter().map(|delta| delta.net.state_len()).chain(window).chain(carried);
        let layers = lens.map(layer).collect::<Result<_, CudaError>>()?;
        Ok(Self { layers, deltas: program.deltas.len() })
    }

    /// All slots of a layer.
    pub(super) fn layer(&self, id: DeltaId) -> Span<f32> {
        self.layers[id.0].0.span()
    }

    /// All slots of the rows that the convolution of n-grams sees.
    pub(super) fn ngrams(&self, id: NgramId) -> Span<f32> {
        self.layers[self.deltas + id.0].0.span()
    }

    /// All slots of what the program's block carries on.
    pub(super) fn carried(&self) -> Span<f32> {
        self.layers.last().map(|(memory, _)| memory.span()).expect("an op of the program carries it on")
    }

    /// Bytes of one state over all layers.
    pub(super) fn bytes(&self) -> usize {
        self.layers.iter().map(|(_, len)| 4 * len).sum()
    }

    /// An error unless all states of a step have slots: kernels take a number beyond for none.
    pub(super) fn check(&self, batch: &Batch<'_>) -> Result<(), CudaError> {
        let Some((memory, len)) = self.kept().next() else { return Ok(()) };
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
        self.kept().map(part).collect()
    }

    /// Layers that keep something.
    fn kept(&self) -> impl Iterator<Item = &(Buffer<f32>, usize)> {
        self.layers.iter().filter(|(_, len)| *len > 0)
    }
}
