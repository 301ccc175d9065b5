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
#[cfg(test)]
mod tests;

use std::ops::Range;

use bloomery_kernels::cpu::{
    AttentionScratch, Cpu, DeltaScratch, KernelError, Masks, NgramScratch, Pool, Routes, Scratch,
};

use super::tables::Tables;
use super::{Answer, Backend, Batch, Readback, RouteTrace};
use crate::error::{EngineError, LoadError};
use crate::plan::Plan;
use crate::program::{NgramLayer, Op, Program, Rows};
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
        let carried = program.draft.as_ref().map(|draft| draft.carried).filter(|&carried| carried > 0);
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

    /// Runs some of a step's ops, and what comes in place of those that are left out at the end. Tells the experts that were chosen.
    fn run(
        &mut self,
        batch: &Batch<'_>,
        ops: Range<usize>,
        mut trace: Option<&mut RouteTrace>,
    ) -> Result<(), EngineError> {
        let mut step = Step::new(self, batch);
        step.size_buffers();
        let program = &step.model.program;
        let is_end = batch.want == Readback::Hidden && ops.end + 1 == program.step_ops().count();
        let last = program.hidden.op.as_ref().filter(|_| is_end);
        let ops = program.step_ops().take(ops.end).skip(ops.start).chain(last);
        if ops.clone().any(|op| matches!(op, Op::Ngrams { .. })) {
            step.look_up();
        }
        for op in ops {
            if let Op::Ngrams { ngrams, .. } = op {
                step.read_found(*ngrams)?;
            }
            step.run(op)?;
            if let (Some(trace), Op::Route { .. }) = (&mut trace, op) {
                trace.layers.push((step.routes.used, step.routes.experts.clone()));
            }
        }
        Ok(())
    }

    /// Rows from `first` on become those from 0 on.
    fn drop_rows(&mut self, first: usize) {
        for buffer in self.model.program.buffers.iter().filter(|buffer| buffer.rows == Rows::All) {
            self.buffers[buffer.index].drain(..first * buffer.cols);
        }
    }
}

impl Backend for CpuBackend {
    fn step(&mut self, mut batch: Batch<'_>) -> Result<Answer<'_>, EngineError> {
        let (mut trace, deep) = (batch.trace.take(), batch.deep.take());
        if let Some(trace) = &mut trace {
            trace.layers.clear();
        }
        // The head is the last op; hidden states are what it would have read.
        let wants_hidden = batch.want == Readback::Hidden;
        let end = self.model.program.step_ops().count() - usize::from(wants_hidden);
        let mut start = 0;
        if let Some(deep) = &deep {
            start = deep.narrow.at;
            self.run(&batch, 0..start, trace.as_deref_mut())?;
            if deep.first == batch.tokens.len() {
                return Ok(Answer::Rows(&[]));
            }
            self.drop_rows(deep.first);
            batch = batch.past_cut(deep);
        }
        self.run(&batch, start..end, trace)?;
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
        draft.pass(goes_on).iter().try_for_each(|op| step.run(op))?;
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
