//! One NVIDIA card: weights and caches in its memory, every op of the vocabulary one or a few kernels.
//!
//! A step is one copy of its inputs to the card, the kernels of [`walk`], and one copy back. Buffers stay where they are, so
//! that steps of few rows run as captured graphs.

mod angles;
mod frame;
mod graphs;
mod inputs;
mod load;
mod memory;
mod model;
mod ops;
mod pages;
mod pump;
mod readback;
mod sizes;
mod support;
mod tilings;
mod walk;
mod watch;

pub(crate) use sizes::Sizes;
pub(crate) use support::{
    dense_bytes, expert_bytes, unsupported, unsupported_dense, unsupported_experts, weight_bytes,
};

use bloomery_kernels::cuda::{CudaError, Device, Stream};

use super::{Answer, Backend, Batch, GraphFacts, Readback};
use crate::error::{EngineError, LoadError};
use crate::plan::{Plan, Progress};
use crate::state::{PAGE, PageId};
use frame::Frame;
use graphs::{GRAPH_ROWS, Graphs};
use inputs::Inputs;
use memory::Memory;
use model::Model;
use pages::Caches;
use readback::Reader;
use tilings::Tilings;
use walk::{body, head, launch, states};
use watch::Watch;

/// A model on a card.
pub(crate) struct CudaBackend {
    stream: Stream,
    model: Model,
    memory: Memory,
    inputs: Inputs,
    caches: Caches,
    graphs: Graphs,
    reader: Reader,
    sizes: Sizes,
    /// Of a page that was not copied.
    failed: Option<CudaError>,
}

impl CudaBackend {
    /// Brings the plan's model to its card, number `number`, with caches of `pages` pages.
    pub(crate) fn load(
        plan: Plan,
        number: usize,
        pages: usize,
        progress: impl FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let Plan { card, gguf, program, weights, kv, context, sessions, step_rows, .. } = plan;
        let device = match card.and_then(|card| card.device) {
            Some(device) => device,
            None => Device::open(number)?,
        };
        let mut stream = device.stream()?;
        let sizes = Sizes::of(&program, &weights, kv, (step_rows, sessions));
        // Caches and buffers first: what does not fit is refused before the file is read.
        let shapes = program.attentions.iter().map(|attention| ops::attend::shape(attention, kv));
        let caches = Caches::new(&device, shapes, pages)?;
        let memory = Memory::new(&device, &program, &sizes)?;
        let tilings = Tilings::new(device.info(), &program, kv)?;
        let inputs = Inputs::new(&stream, &sizes, context.div_ceil(PAGE), tilings)?;
        let reader = Reader::new(&device, &program, &sizes)?;
        let stored = load::load(&device, &mut stream, &gguf, (&program, &weights), progress)?;
        let ropes = angles::ropes(&mut stream, &program, &weights, &gguf, context)?;
        let model = Model::new(program, stored, ropes);
        let graphs = Graphs::default();
        Ok(Self { stream, model, memory, inputs, caches, graphs, reader, sizes, failed: None })
    }

    /// Keeps the first error of page copies for the next step.
    fn page(&mut self, work: impl FnOnce(&Caches, &mut Stream) -> Result<(), CudaError>) {
        if let Err(error) = work(&self.caches, &mut self.stream) {
            self.failed.get_or_insert(error);
        }
    }

    /// Queues a step's kernels.
    fn run(&mut self, batch: &Batch<'_>, watch: Watch<'_>) -> Result<(), CudaError> {
        let info = self.stream.device().info().clone();
        let frame = Frame {
            info: &info,
            model: &self.model,
            memory: &self.memory,
            inputs: &self.inputs,
            caches: &self.caches,
            rows: batch.tokens.len(),
            outputs: batch.outputs.len(),
        };
        let stages = || {
            let mut stages = body(&frame)?;
            match batch.want {
                Readback::Hidden if frame.outputs > 0 => stages.push(states(&frame)?),
                Readback::Hidden => {}
                // Of more rows the head runs as they are read.
                _ if (1..=self.sizes.logit_rows).contains(&frame.outputs) => {
                    stages.push(head(&frame, 0, frame.outputs)?);
                }
                _ => {}
            }
            Ok(stages)
        };
        let stream = &mut self.stream;
        if watch.is_on() {
            return watch.run(stream, &stages()?, &self.memory);
        }
        let repeats = frame.rows <= GRAPH_ROWS && batch.want != Readback::Hidden;
        let shape = (frame.rows, frame.outputs);
        if repeats && self.graphs.run(stream, shape, |stream| launch(stream, &stages()?))? {
            return Ok(());
        }
        launch(stream, &stages()?)
    }
}

impl Backend for CudaBackend {
    fn step(&mut self, mut batch: Batch<'_>) -> Result<Answer<'_>, EngineError> {
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        let watch = Watch { trace: batch.trace.take(), times: batch.stages.take() };
        self.inputs.send(&mut self.stream, &batch)?;
        self.run(&batch, watch)?;
        let info = self.stream.device().info().clone();
        let frame = Frame {
            info: &info,
            model: &self.model,
            memory: &self.memory,
            inputs: &self.inputs,
            caches: &self.caches,
            rows: batch.tokens.len(),
            outputs: batch.outputs.len(),
        };
        Ok(self.reader.read(&mut self.stream, &frame, batch.want)?)
    }

    fn copy_page(&mut self, from: PageId, to: PageId) {
        self.page(|caches, stream| caches.copy(stream, from, to));
    }

    fn read_page(&mut self, page: PageId, out: &mut Vec<u8>) {
        let end = out.len() + self.page_bytes();
        self.page(|caches, stream| caches.read(stream, page, out));
        out.resize(end, 0);
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        self.page(|caches, stream| caches.write(stream, page, bytes));
    }

    fn page_bytes(&self) -> usize {
        self.caches.page_bytes()
    }

    fn graphs(&self) -> Vec<GraphFacts> {
        self.graphs.facts()
    }
}
