//! The CPU backend: every op of the vocabulary is one kernel call.

mod block;
mod cache;
mod groups;
mod heads;
mod index;
mod mixer;
mod model;
mod states;
mod step;
mod streams;

use bloomery_kernels::cpu::{
    AttentionScratch, Cpu, DeltaScratch, KernelError, Masks, NgramScratch, Pool, Routes, Scratch,
};

use super::tables::Tables;
use super::{Answer, Backend, Batch, Readback};
use crate::error::{EngineError, LoadError};
use crate::plan::Plan;
use crate::program::{NgramLayer, Op, Program};
use crate::state::{PageId, StateId};
use cache::LayerCache;
use groups::LayerGroups;
use index::LayerIndex;
use model::Model;
use states::LayerStates;
use step::Step;

/// Weights in the file's mapping; caches, states and activations in host memory.
pub(crate) struct CpuBackend {
    cpu: Cpu,
    model: Model,
    caches: Vec<LayerCache>,
    indexes: Vec<LayerIndex>,
    groups: Vec<LayerGroups>,
    /// Which positions the rows of the step see in the next attention layer.
    masks: Masks,
    /// Spans of blocks to which later choices are limited.
    candidates: Masks,
    tables: Tables,
    /// Those of delta layers, then of n-grams, then what the model's block carries on.
    states: Vec<LayerStates>,
    buffers: Vec<Vec<f32>>,
    routes: Routes,
    scratch: Scratches,
}

/// Memory that kernels reuse.
#[derive(Default)]
struct Scratches {
    products: Scratch,
    attention: AttentionScratch,
    delta: DeltaScratch,
    ngrams: NgramScratch,
}

impl CpuBackend {
    /// Caches of `pages` pages and as many states as the plan says; vectors are read, matrices stay mapped.
    pub(crate) fn new(plan: Plan, pages: usize) -> Result<Self, LoadError> {
        let (threads, isa, numerics, kv, slots) =
            (plan.threads, plan.isa, plan.numerics, plan.kv, plan.states.slots);
        let model = Model::new(plan)?;
        let program = &model.program;
        let caches = program
            .attentions
            .iter()
            .map(|attention| Ok(LayerCache::new(attention.cache_shape(kv)?, pages)))
            .collect::<Result<_, KernelError>>()?;
        let indexes = program
            .indexes
            .iter()
            .map(|index| Ok(LayerIndex::new(index.shape()?, pages)))
            .collect::<Result<_, KernelError>>()?;
        let groups = program
            .groups
            .iter()
            .map(|group| Ok(LayerGroups::new(group.shape()?, pages)))
            .collect::<Result<_, KernelError>>()?;
        let window = program.ngrams.iter().map(NgramLayer::state_len);
        let carried = program.draft.as_ref().map(|draft| draft.carried);
        let lens = model.deltas.iter().map(|delta| delta.shape().state_len()).chain(window).chain(carried);
        Ok(Self {
            cpu: Cpu::new(Pool::new(threads), isa, numerics),
            caches,
            indexes,
            groups,
            masks: Masks::default(),
            candidates: Masks::default(),
            states: lens.map(|len| LayerStates::new(len, slots)).collect(),
            buffers: vec![Vec::new(); program.buffers.len()],
            routes: Routes::default(),
            scratch: Scratches::default(),
            tables: model.tables(),
            model,
        })
    }
}

impl Backend for CpuBackend {
    fn step(&mut self, mut batch: Batch<'_>) -> Result<Answer<'_>, EngineError> {
        let trace = batch.trace.take();
        let mut step = Step::new(self, &batch);
        step.size_buffers();
        step.look_up();
        let mut traced = Vec::new();
        let program = &step.model.program;
        // The head is the last op; hidden states are what it would have read.
        let wants_hidden = batch.want == Readback::Hidden;
        let count = program.step_ops().count();
        let (ops, last) = match wants_hidden {
            true => (count - 1, program.hidden.op.as_ref()),
            false => (count, None),
        };
        for op in program.step_ops().take(ops).chain(last) {
            if let Op::Ngrams { ngrams, .. } = op {
                step.read_found(*ngrams)?;
            }
            step.run(op)?;
            if trace.is_some() && matches!(op, Op::Route { .. }) {
                traced.push((step.routes.used, step.routes.experts.clone()));
            }
        }
        if let Some(trace) = trace {
            trace.layers = traced;
        }
        let Program { logits, hidden, .. } = &self.model.program;
        Ok(Answer::Rows(&self.buffers[if wants_hidden { hidden.buffer.index } else { logits.index }]))
    }

    fn has_block(&self) -> bool {
        self.model.program.draft.is_some()
    }

    fn guess(&mut self, batch: Batch<'_>, goes_on: bool) -> Result<Answer<'_>, EngineError> {
        let mut step = Step::new(self, &batch);
        step.size_buffers();
        let draft = step.model.program.draft.as_ref().ok_or(EngineError::NoBlock)?;
        // The first op reads states, which the pass before has left behind.
        let ops = &draft.ops[usize::from(goes_on)..];
        ops.iter().try_for_each(|op| step.run(op))?;
        Ok(Answer::Rows(&self.buffers[self.model.program.logits.index]))
    }

    fn copy_page(&mut self, from: PageId, to: PageId) {
        self.caches.iter_mut().for_each(|cache| cache.copy_page(from, to));
        self.indexes.iter_mut().for_each(|index| index.copy_page(from, to));
        self.groups.iter_mut().for_each(|groups| groups.pages.copy(from, to));
    }

    fn read_page(&mut self, page: PageId, out: &mut Vec<u8>) {
        self.caches.iter().for_each(|cache| cache.read_page(page, out));
        self.indexes.iter().for_each(|index| index.read_page(page, out));
        self.groups.iter().for_each(|groups| out.extend_from_slice(groups.pages.page(page)));
    }

    fn write_page(&mut self, page: PageId, mut bytes: &[u8]) {
        for cache in &mut self.caches {
            let (now, rest) = bytes.split_at(cache.page_bytes());
            cache.write_page(page, now);
            bytes = rest;
        }
        for index in &mut self.indexes {
            let (now, rest) = bytes.split_at(index.page_bytes());
            index.write_page(page, now);
            bytes = rest;
        }
        for groups in &mut self.groups {
            let (now, rest) = bytes.split_at(groups.pages.size());
            groups.pages.page_mut(page).copy_from_slice(now);
            bytes = rest;
        }
    }

    fn page_bytes(&self) -> usize {
        let caches: usize = self.caches.iter().map(LayerCache::page_bytes).sum();
        let groups: usize = self.groups.iter().map(|groups| groups.pages.size()).sum();
        caches + self.indexes.iter().map(LayerIndex::page_bytes).sum::<usize>() + groups
    }

    fn state_bytes(&self) -> usize {
        self.states.iter().map(LayerStates::state_bytes).sum()
    }

    fn read_state(&mut self, state: StateId, out: &mut Vec<u8>) {
        self.states.iter().for_each(|states| out.extend_from_slice(states.slot(state)));
    }

    fn write_state(&mut self, state: StateId, mut bytes: &[u8]) {
        for states in &mut self.states {
            let (now, rest) = bytes.split_at(states.state_bytes());
            states.slot_mut(state).copy_from_slice(now);
            bytes = rest;
        }
    }
}
