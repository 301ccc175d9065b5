//! One NVIDIA card: weights and caches in its memory, every op of the vocabulary one or a few kernels.
//!
//! A step is one copy of its inputs to the card, the kernels of [`walk`], and one copy back. Buffers stay where they are, so
//! that steps of few rows run as captured graphs.

mod angles;
mod card;
mod frame;
mod graphs;
mod hosted;
mod inputs;
mod load;
mod lookup;
mod memory;
mod model;
mod ops;
mod pages;
mod passage;
mod pump;
mod readback;
mod residual;
mod share;
mod sizes;
mod states;
mod support;
mod tilings;
mod walk;
mod watch;

pub(crate) use hosted::{DESK_ROWS, MOST_SERVED_ROWS};
pub(crate) use sizes::Sizes;
pub(crate) use support::{
    dense_bytes, expert_bytes, guess_bytes, unsupported, unsupported_dense, unsupported_experts, weight_bytes,
};

use bloomery_kernels::cpu::{Cpu, Pool};
use bloomery_kernels::cuda::{CudaError, Device, Span, Stream};

use super::{Answer, Backend, Batch, Deep, GraphFacts, Readback};
use crate::error::{EngineError, LoadError};
use crate::plan::{Plan, Progress, StateSlots};
use crate::residency::Traffic;
use crate::state::{PAGE, PageId, StateId};
use crate::units::Bytes;
use card::Card;
use frame::Frame;
use graphs::{GRAPH_ROWS, Graphs, Pass, Shape};
use hosted::{HeatFile, Hosted, Parts};
use inputs::Inputs;
use lookup::Lookup;
use memory::Memory;
use model::Model;
use pages::{Caches, Shapes};
use passage::Passage;
use readback::Reader;
use share::Share;
use states::States;
use tilings::Tilings;
use walk::{Stage, launch, served};
use watch::{Watch, one};

/// A model on a card.
pub(crate) struct CudaBackend {
    stream: Stream,
    card: Card,
    graphs: Graphs,
    reader: Reader,
    /// For pages and states.
    passage: Passage,
    /// Experts that are not all on the card.
    hosted: Option<Hosted>,
    /// What caches and slots have together of the card.
    shared: Bytes,
    /// A change of the caches' size ended in the middle.
    broken: bool,
    /// Of a page that was not copied.
    failed: Option<CudaError>,
}

impl CudaBackend {
    /// Brings the plan's model, known by its fingerprint, to its card, number `number`, with caches of `pages` pages.
    pub(crate) fn load(
        plan: Plan,
        (number, fingerprint): (usize, u64),
        pages: usize,
        progress: impl FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let shared = plan.shared();
        let Plan { card, gguf, program, weights, kv, context, sessions, step_rows, .. } = plan;
        let Plan { split, split_options, threads, isa, numerics, states: StateSlots { slots, .. }, .. } =
            plan;
        let device = match card.and_then(|card| card.device) {
            Some(device) => device,
            None => Device::open(number)?,
        };
        let mut stream = device.stream()?;
        let sizes = Sizes::of(&program, &weights, kv, (step_rows, sessions));
        // Caches and buffers first: what does not fit is refused before the file is read.
        let layers = program.attentions.iter().map(|attention| ops::attend::shape(attention, kv));
        let shapes = Shapes {
            layers: layers.collect::<Result<_, _>>()?,
            indexes: program.indexes.iter().map(ops::index::shape).collect::<Result<_, _>>()?,
            groups: program.groups.iter().map(ops::summaries::shape).collect::<Result<_, _>>()?,
        };
        let caches = Caches::new(&device, shapes, pages)?;
        let states = States::new(&device, &program, slots)?;
        let memory = Memory::new(&device, &program, &sizes, context.div_ceil(PAGE))?;
        let tilings = Tilings::new(device.info(), &program, kv)?;
        let inputs = Inputs::new(&stream, &sizes, context.div_ceil(PAGE), tilings)?;
        let lookup = Lookup::new(&mut stream, (&program, &weights, &gguf), &sizes)?;
        let reader = Reader::new(&device, &program, &sizes)?;
        let with = (&program, &weights, split.is_some());
        let passage = Passage::new(&device, caches.page_bytes().max(states.bytes()))?;
        let stored = load::load(&device, &mut stream, &gguf, with, progress)?;
        let ropes = angles::ropes(&mut stream, &program, &weights, &gguf, context)?;
        let hosted = match split {
            None => None,
            Some(split) => {
                let cpu = Cpu::new(Pool::new(threads), isa, numerics);
                let mode = split_options.residency;
                let served_rows = split_options.served_rows;
                let heat = split_options.heat.map(|path| HeatFile { path, model: fingerprint });
                let parts = Parts {
                    split,
                    program: &program,
                    weights,
                    gguf,
                    cpu,
                    step_rows,
                    mode,
                    served_rows,
                    heat,
                };
                let mut hosted = Hosted::new(&device, &stream, parts)?;
                hosted.fill(&mut stream)?;
                Some(hosted)
            }
        };
        let (model, info) = (Model::new(program, stored, ropes), device.info().clone());
        let card = Card { info, model, memory, inputs, lookup, caches, states, sizes };
        let (graphs, broken, failed) = (Graphs::default(), false, None);
        Ok(Self { stream, card, graphs, reader, passage, hosted, shared, broken, failed })
    }

    /// Refuses to go on after an error that was not told yet, or that left something unfinished.
    fn check(&mut self) -> Result<(), EngineError> {
        match self.failed.take() {
            Some(error) => Err(error.into()),
            None if self.broken => Err(EngineError::Poisoned),
            None => Ok(()),
        }
    }

    /// Keeps the first error of copies for the next step.
    fn keep_error(&mut self, done: Result<(), CudaError>) {
        if let Err(error) = done {
            self.failed.get_or_insert(error);
        }
    }

    /// Appends `len` bytes of a page or a state to `out`: zeros where that fails.
    fn read(&mut self, parts: Result<Vec<Span<u8>>, CudaError>, len: usize, out: &mut Vec<u8>) {
        let end = out.len() + len;
        let done = parts.and_then(|parts| self.passage.read(&mut self.stream, &parts, out));
        out.resize(end, 0);
        self.keep_error(done);
    }

    /// Writes a page or a state.
    fn write(&mut self, parts: Result<Vec<Span<u8>>, CudaError>, bytes: &[u8]) {
        let done = parts.and_then(|parts| self.passage.write(&mut self.stream, bytes, &parts));
        self.keep_error(done);
    }

    /// How caches and slots divide the card's memory.
    fn share(&self) -> Option<Share> {
        let caches = &self.card.caches;
        let [page, largest] = [caches.page_bytes(), caches.largest_page()].map(|bytes| Bytes(bytes as u64));
        let ring = self.hosted.as_ref()?.split().ring_bytes();
        Some(Share { all: self.shared, page, largest, ring })
    }

    /// Queues a step's kernels, and does the host's part in it.
    fn run(&mut self, batch: &Batch<'_>, watch: &mut Watch<'_>) -> Result<(), EngineError> {
        let Self { stream, card, graphs, hosted, .. } = self;
        let (rows, outputs) = batch.shape();
        let streams = hosted.as_ref().is_some_and(Hosted::streams);
        let as_graph = rows <= GRAPH_ROWS && batch.want != Readback::Hidden && !streams && !watch.is_on();
        if let Some(lookup) = card.lookup.as_mut().filter(|_| as_graph) {
            lookup.find_all(stream)?;
        }
        let stages = || card.stages(hosted.as_ref(), batch, None);
        let fetches = hosted.as_ref().is_some_and(Hosted::fetches);
        let shape = Shape { pass: Pass::Step { fetches }, rows, outputs };
        if as_graph && graphs.run(stream, shape, |stream| launch(stream, &stages()?))? {
            let Some(hosted) = hosted else { return Ok(()) };
            return hosted.serve_all(&served(&card.model.program, rows, outputs));
        }
        let stages = stages()?;
        self.queue(&stages, watch)
    }

    /// Queues the kernels of a step some of whose rows stop at the program's cut.
    fn run_parts(
        &mut self,
        batch: &Batch<'_>,
        deep: &Deep<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<(), EngineError> {
        let stages = self.card.shallow(self.hosted.as_ref(), (batch, deep))?;
        self.queue(&stages, watch)?;
        if deep.first == batch.tokens.len() {
            return Ok(());
        }
        let past = batch.past_cut(deep);
        self.card.inputs.send(&mut self.stream, &past)?;
        if let Some(lookup) = self.card.lookup.as_mut().filter(|_| deep.narrow.looks_up) {
            lookup.go_on(&past);
        }
        let stages = self.card.stages(self.hosted.as_ref(), &past, Some(deep))?;
        self.queue(&stages, watch)
    }

    fn queue(&mut self, stages: &[Stage], watch: &mut Watch<'_>) -> Result<(), EngineError> {
        let Self { stream, card, hosted, .. } = self;
        match watch.is_on() {
            true => watch.run(stream, stages, &card.memory, (&mut card.lookup, hosted)),
            false => stages.iter().try_for_each(|stage| one(stream, stage, &mut card.lookup, hosted)),
        }
    }
}

impl Backend for CudaBackend {
    fn step(&mut self, mut batch: Batch<'_>) -> Result<Answer<'_>, EngineError> {
        self.check()?;
        let mut watch = Watch { trace: batch.trace.take(), times: batch.stages.take() };
        watch.clear();
        let deep = batch.deep.take();
        self.card.states.check(&batch)?;
        self.card.inputs.send(&mut self.stream, &batch)?;
        if let Some(lookup) = &mut self.card.lookup {
            lookup.ask(&batch);
        }
        if let Some(hosted) = &mut self.hosted {
            let stops = deep.filter(|deep| deep.first == batch.tokens.len());
            let layers = stops.map_or(usize::MAX, |deep| deep.narrow.routed);
            hosted.begin(&mut self.stream, batch.tokens.len(), layers)?;
        }
        let ran = match &deep {
            None => self.run(&batch, &mut watch),
            Some(deep) => self.run_parts(&batch, deep, &mut watch),
        };
        let Self { stream, card, reader, hosted, .. } = self;
        if let (Err(_), Some(hosted)) = (&ran, &mut *hosted) {
            hosted.recover(stream);
        }
        ran?;
        // The card has the step to do meanwhile.
        if let Some(lookup) = &mut card.lookup {
            lookup.foresee(&batch);
        }
        let (rows, outputs) = batch.shape();
        let first = deep.map_or(0, |deep| deep.first);
        let frame = Frame { first, ..card.frame(None, (rows - first, outputs)) };
        let answer = reader.read(stream, &frame, batch.want)?;
        if let Some(hosted) = hosted {
            hosted.end(stream, batch.tokens.len())?;
        }
        Ok(answer)
    }

    fn has_block(&self) -> bool {
        self.card.model.program.draft.is_some()
    }

    fn guess(&mut self, batch: Batch<'_>, goes_on: bool) -> Result<Answer<'_>, EngineError> {
        self.check()?;
        if !self.has_block() {
            return Err(EngineError::NoBlock);
        }
        let Self { stream, card, graphs, reader, .. } = self;
        card.states.check(&batch)?;
        card.inputs.send(stream, &batch)?;
        let (rows, outputs) = batch.shape();
        let shape = Shape { pass: Pass::Guess { goes_on }, rows, outputs };
        let stages = || card.guess(&batch, goes_on);
        let ran = rows <= GRAPH_ROWS && graphs.run(stream, shape, |stream| launch(stream, &stages()?))?;
        if !ran {
            launch(stream, &stages()?)?;
        }
        Ok(reader.read(stream, &card.frame(None, (rows, outputs)), batch.want)?)
    }

    fn copy_page(&mut self, from: PageId, to: PageId) {
        let done = self.card.caches.copy(&mut self.stream, from, to);
        self.keep_error(done);
    }

    fn read_page(&mut self, page: PageId, out: &mut Vec<u8>) {
        self.read(self.card.caches.parts(page), self.page_bytes(), out);
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        self.write(self.card.caches.parts(page), bytes);
    }

    fn page_bytes(&self) -> usize {
        self.card.caches.page_bytes()
    }

    fn state_bytes(&self) -> usize {
        self.card.states.bytes()
    }

    fn read_state(&mut self, state: StateId, out: &mut Vec<u8>) {
        self.read(self.card.states.parts(state), self.state_bytes(), out);
    }

    fn write_state(&mut self, state: StateId, bytes: &[u8]) {
        self.write(self.card.states.parts(state), bytes);
    }

    fn most_pages(&self) -> Option<usize> {
        Some(self.share()?.most_pages(self.card.caches.pages()))
    }

    fn rebalance(&mut self, pages: usize) -> Result<usize, EngineError> {
        self.check()?;
        let share = self.share().ok_or(EngineError::NotSplit)?;
        let Self { stream, card, graphs, hosted, broken, .. } = self;
        let hosted = hosted.as_mut().ok_or(EngineError::NotSplit)?;
        *broken = true;
        stream.synchronize()?;
        graphs.forget();
        hosted.clear()?;
        let pages = card.caches.resize(stream, pages)?;
        hosted.refill(stream, share.slots(Bytes(card.caches.bytes() as u64)))?;
        *broken = false;
        Ok(pages)
    }

    fn traffic(&self) -> Option<Traffic> {
        self.hosted.as_ref().map(Hosted::traffic)
    }

    fn graphs(&self) -> Vec<GraphFacts> {
        self.graphs.facts()
    }
}
