//! Buffers between the ops of a step, at fixed addresses.

use bloomery_kernels::cuda::{Buffer, CudaError, Device};

use super::sizes::Sizes;
use crate::program::Program;

/// What steps write before they read it.
#[derive(Debug)]
pub(super) struct Memory {
    /// The program's, by index.
    pub(super) buffers: Vec<Buffer<f32>>,
    /// Between the halves of experts.
    pub(super) ffn: Buffer<f32>,
    /// Between the halves of dense networks, which may run beside experts.
    pub(super) dense: Buffer<f32>,
    /// Of products: nothing in it outlives an op.
    pub(super) workspace: Buffer<u8>,
    /// `[rows][used]`: the experts of the layer under way.
    pub(super) experts: Buffer<u32>,
    /// Their weights.
    pub(super) expert_weights: Buffer<f32>,
    /// Of routers; zero between launches.
    pub(super) route: Buffer<u32>,
    /// Of attention of few rows.
    pub(super) partials: Buffer<f32>,
    /// The same; zero between launches.
    pub(super) tickets: Buffer<u32>,
    /// Scores of blocks: nothing in it outlives an op.
    pub(super) scores: Buffer<f32>,
    /// `[rows]` of a choice: the places that the attention after it sees.
    pub(super) places: Buffer<u32>,
    /// Candidates of the step.
    pub(super) spans: Buffer<u32>,
    /// `[rows][heads]`: sums of attention with sinks.
    pub(super) sums: Buffer<f32>,
    /// Of delta layers.
    pub(super) delta: Buffer<f32>,
    /// The same; zero between launches.
    pub(super) readers: Buffer<u32>,
    /// Of residual streams.
    pub(super) streams: Buffer<f32>,
    /// What the network beside the experts under way counts for in every row.
    pub(super) shares: Buffer<f32>,
    /// As many zeros: its number among the matrices.
    pub(super) firsts: Buffer<u32>,
    /// Selected candidates.
    pub(super) candidates: Buffer<u32>,
    /// Of their selection.
    pub(super) select: Buffer<u32>,
}

impl Memory {
    /// Where a sequence has up to `pages` pages.
    pub(super) fn new(
        device: &Device,
        program: &Program,
        sizes: &Sizes,
        pages: usize,
    ) -> Result<Self, CudaError> {
        let buffers = program.buffers.iter().enumerate();
        let buffers =
            buffers.map(|(index, buffer)| device.alloc(buffer.cols * sizes.rows_of(program, index)));
        Ok(Self {
            buffers: buffers.collect::<Result<_, _>>()?,
            ffn: device.alloc(sizes.ffn)?,
            dense: device.alloc(sizes.dense)?,
            workspace: device.alloc(sizes.workspace)?,
            experts: device.alloc(sizes.rows * sizes.used)?,
            expert_weights: device.alloc(sizes.rows * sizes.used)?,
            route: device.alloc(sizes.route)?,
            partials: device.alloc(sizes.partials)?,
            tickets: device.alloc(sizes.tickets)?,
            scores: device.alloc(sizes.scores(program, pages))?,
            places: device.alloc(sizes.places)?,
            spans: device.alloc(sizes.spans(program, pages))?,
            sums: device.alloc(sizes.sums)?,
            delta: device.alloc(sizes.delta)?,
            readers: device.alloc(sizes.readers)?,
            streams: device.alloc(sizes.streams)?,
            shares: device.alloc(sizes.shares)?,
            firsts: device.alloc(sizes.shares)?,
            candidates: device.alloc(sizes.candidate_words())?,
            select: device.alloc(sizes.select)?,
        })
    }
}
