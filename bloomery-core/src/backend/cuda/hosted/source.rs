//! Host memory that the card reads experts from.

use std::ops::Range;
use std::sync::Arc;

use bloomery_gguf::{Gguf, Tensor};
use bloomery_kernels::cuda::{CudaError, Device, HostSource, Pinned, Span, Stream};

use crate::weights::{StackId, Weights};

/// The file's mapping itself, or a copy.
#[derive(Debug)]
pub(super) enum Source {
    /// The driver reads the pages of the file.
    InPlace(HostSource<Gguf>),
    /// Of a model that is no mapped file, or where the driver cannot: all experts of a stack from an offset on.
    Copied { memory: HostSource<Pinned<u8>>, starts: Vec<usize> },
}

impl Source {
    /// Makes the experts readable for the card. Where the pages of the file are not, they are copied once. Tables of n-grams stay on
    /// the disk.
    pub(super) fn new(
        device: &Device,
        (gguf, tables): (&Arc<Gguf>, &[&Tensor]),
        weights: &Weights,
        stacks: impl Iterator<Item = StackId> + Clone,
    ) -> Result<Self, CudaError> {
        if gguf.mappings().count() > 0 && device.info().copies_mappings {
            let memory = HostSource::registered(device, gguf.clone(), |gguf| gguf.mappings_without(tables))?;
            return Ok(Self::InPlace(memory));
        }
        let most = stacks.clone().map(StackId::index).max().map_or(0, |index| index + 1);
        let (mut starts, mut end) = (vec![0; most], 0);
        for id in stacks.clone() {
            starts[id.index()] = end;
            end += weights.expert_bytes(id).0 as usize * weights.stack_count(id);
        }
        let mut memory = device.pinned(end)?;
        for id in stacks {
            let mut at = starts[id.index()];
            for piece in weights.experts(gguf, id, 0..weights.stack_count(id)) {
                memory.values_mut()[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            }
        }
        Ok(Self::Copied { memory: HostSource::pinned(Arc::new(memory)), starts })
    }

    /// Queues the copy of neighbouring experts of a stack to `to`, as they lie in the file.
    pub(super) fn copy(
        &self,
        stream: &mut Stream,
        weights: &Weights,
        (id, experts): (StackId, Range<usize>),
        to: &Span<u8>,
    ) -> Result<(), CudaError> {
        match self {
            Self::InPlace(memory) => {
                let pieces = weights.experts(memory.owner(), id, experts);
                let mut at = 0;
                for piece in pieces {
                    memory.copy(stream, piece, &to.slice(at..at + piece.len())?)?;
                    at += piece.len();
                }
                Ok(())
            }
            Self::Copied { memory, starts } => {
                let (one, start) = (weights.expert_bytes(id).0 as usize, starts[id.index()]);
                let bytes = &memory.owner().values()[start + experts.start * one..start + experts.end * one];
                memory.copy(stream, bytes, to)
            }
        }
    }
}
