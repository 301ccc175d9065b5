//! One step under way.

use std::sync::Arc;

use bloomery_gguf::GgufError;
use bloomery_kernels::cpu::{
    Activation, Cpu, Experts, Ffn, KernelError, Masks, Part, RopeTable, RouterGroups, RouterScore,
    RouterSpec, RouterWeights, Routes, RowSlot, RowView,
};

use super::cache::LayerCache;
use super::groups::LayerGroups;
use super::index::LayerIndex;
use super::mixer::Runs;
use super::model::Model;
use super::states::LayerStates;
use super::{CpuBackend, Scratches};
use crate::backend::tables::Tables;
use crate::backend::{Batch, Readback};
use crate::def::{Act, Scores};
use crate::program::{Buffer, ExpertStacks, Gain, Gated, NgramId, Op, Projection, Routing, Rows};
use crate::state::PAGE;

pub(super) struct Step<'a> {
    pub(super) cpu: &'a Cpu,
    pub(super) model: &'a Model,
    pub(super) caches: &'a mut [LayerCache],
    pub(super) indexes: &'a mut [LayerIndex],
    pub(super) groups: &'a mut [LayerGroups],
    pub(super) masks: &'a mut Masks,
    pub(super) candidates: &'a mut Masks,
    pub(super) states: &'a mut [LayerStates],
    pub(super) buffers: &'a mut [Vec<f32>],
    pub(super) routes: &'a mut Routes,
    pub(super) scratch: &'a mut Scratches,
    pub(super) batch: &'a Batch<'a>,
    pub(super) slots: Vec<RowSlot>,
    pub(super) views: Vec<RowView<'a>>,
    pub(super) runs: Runs,
    /// Cosines and sines of the step's positions, by rotation.
    pub(super) tables: Vec<Option<RopeTable>>,
    pub(super) lookup: &'a mut Tables,
    /// Numbers of the rows that layers of n-grams look up.
    pub(super) found: Arc<Vec<Vec<u32>>>,
    /// The rows of the next such layer, as the file stores them.
    pub(super) found_rows: Vec<u8>,
}

impl<'a> Step<'a> {
    pub(super) fn new(backend: &'a mut CpuBackend, batch: &'a Batch<'a>) -> Self {
        let row = |(&position, &sequence): (&u32, &usize)| (position as usize, batch.pages[sequence]);
        let rows = || batch.positions.iter().zip(batch.sequences).map(row);
        let slots = rows()
            .map(|(position, pages)| RowSlot {
                page: pages[position / PAGE],
                offset: (position % PAGE) as u32,
            })
            .collect();
        let views =
            rows().map(|(position, pages)| RowView { pages, len: position as u32 + 1, mask: None }).collect();
        let has_states = !backend.states.is_empty();
        Self {
            cpu: &backend.cpu,
            model: &backend.model,
            caches: &mut backend.caches,
            indexes: &mut backend.indexes,
            groups: &mut backend.groups,
            masks: &mut backend.masks,
            candidates: &mut backend.candidates,
            states: &mut backend.states,
            buffers: &mut backend.buffers,
            routes: &mut backend.routes,
            scratch: &mut backend.scratch,
            batch,
            slots,
            views,
            runs: if has_states { Runs::of(batch) } else { Runs::default() },
            tables: vec![None; backend.model.ropes.len()],
            lookup: &mut backend.tables,
            found: Arc::default(),
            found_rows: Vec::new(),
        }
    }

    /// Finds the rows that layers of n-grams look up: all are on their way from the disk while the layers before them run.
    pub(super) fn look_up(&mut self) {
        self.found = self.lookup.ask(self.batch);
        self.lookup.foresee(self.batch);
    }

    /// Reads the rows of a layer of n-grams.
    pub(super) fn read_found(&mut self, id: NgramId) -> Result<(), GgufError> {
        let ids = &self.found[id.0];
        self.found_rows.resize(ids.len() * self.lookup.row_bytes(id), 0);
        self.lookup.read(id, ids, &mut self.found_rows)
    }

    pub(super) fn size_buffers(&mut self) {
        let program = &self.model.program;
        // Hidden states of a whole prompt would make half a gigabyte of logits that nobody computes.
        let unused = (self.batch.want == Readback::Hidden).then_some(program.logits.index);
        for buffer in program.buffers.iter().filter(|buffer| Some(buffer.index) != unused) {
            let len = self.rows(buffer) * buffer.cols;
            self.buffers[buffer.index].resize(len, 0.0);
        }
    }

    pub(super) fn rows(&self, buffer: &Buffer) -> usize {
        match buffer.rows {
            Rows::All => self.batch.tokens.len(),
            Rows::Outputs => self.batch.outputs.len(),
        }
    }

    /// Takes a buffer out to write to it; [`put`](Self::put) puts it back.
    pub(super) fn take(&mut self, buffer: Buffer) -> Vec<f32> {
        std::mem::take(&mut self.buffers[buffer.index])
    }

    pub(super) fn put(&mut self, buffer: Buffer, values: Vec<f32>) {
        self.buffers[buffer.index] = values;
    }

    /// Hands a buffer out for writing while others are read.
    pub(super) fn write(
        &mut self,
        buffer: Buffer,
        body: impl FnOnce(&mut Self, &mut [f32]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let mut rows = self.take(buffer);
        let result = body(self, &mut rows);
        self.put(buffer, rows);
        result
    }

    pub(super) fn run(&mut self, op: &Op) -> Result<(), KernelError> {
        match op {
            Op::Embed { table, scale, copies, out } => self.write(*out, |step, rows| {
                let copied: Vec<u32> =
                    step.batch.tokens.iter().flat_map(|&token| std::iter::repeat_n(token, *copies)).collect();
                step.cpu.embed_scaled(step.model.matrix(*table)?, &copied, *scale, rows)
            }),
            Op::Project { x, norm, parts } => self.project_rows(*x, self.rows(x), *norm, parts),
            Op::RopeAppend { q, k, v, attention } => self.rope_append(*q, *k, *v, *attention),
            Op::SharedAppend { q, k, attention } => self.shared_append(*q, *k, *attention),
            Op::Attend { q, attention, out } => self.attend(*q, *attention, *out),
            Op::AttendPart { q, attention, out } => self.attend_part(*q, *attention, *out),
            Op::Blend { parts, sinks, out } => self.blend(*parts, *sinks, *out),
            Op::TurnBack { x, attention } => self.turn_back(*x, *attention),
            Op::Summarise { values, gates, group, out } => self.summarise(*values, *gates, *group, *out),
            Op::SummaryAppend { rows, positions, attention } => {
                self.summary_append(*rows, *positions, *attention)
            }
            Op::SelectEnds { positions } => {
                self.select_ends(*positions);
                Ok(())
            }
            Op::Gate { x, gate } => {
                self.write(*x, |step, rows| step.cpu.gate(rows, &step.buffers[gate.index]))
            }
            Op::Absorb { q: x, keys: weights, out } | Op::PerHead { x, weights, out } => {
                self.per_head(*x, *weights, *out)
            }
            Op::LatentAppend { q, kv, norm, attention } => self.latent_append(*q, *kv, *norm, *attention),
            Op::Delta { qkv, z, beta, alpha, delta, out } => {
                self.delta(*qkv, [*z, *beta, *alpha], *delta, *out)
            }
            Op::Previous { x, out } => self.previous(*x, *out),
            Op::Carried { out } => self.carried(*out),
            Op::Pair { table, embedding_norm, x, norm, streams, out } => {
                self.pair((*table, *embedding_norm), (*x, *norm), *streams, *out)
            }
            Op::ProjectStreams { x, part, streams } => {
                self.project_rows(*x, self.rows(x) * streams, None, std::slice::from_ref(part))
            }
            Op::Copy { x, out } => self.write(*out, |step, rows| {
                rows.copy_from_slice(&step.buffers[x.index]);
                Ok(())
            }),
            Op::Take { from, to } => self.write(*to, |step, rows| {
                for (to, &row) in rows.chunks_exact_mut(from.cols).zip(step.batch.outputs) {
                    to.copy_from_slice(&step.buffers[from.index][row * from.cols..][..from.cols]);
                }
                Ok(())
            }),
            Op::Norm { x, norm, out } => self.write(*out, |step, rows| {
                step.cpu.rms_norm(&step.buffers[x.index], step.rows(x), step.model.norm(*norm), rows)
            }),
            Op::AddNorm { x, norm, out } => self.write(*out, |step, rows| {
                step.cpu.add_norm(&step.buffers[x.index], step.rows(x), step.model.norm(*norm), rows)
            }),
            Op::IndexAppend { keys, gates, index } => self.index_append(*keys, *gates, *index),
            Op::Select { q, weights, index, candidates } => self.select(*q, *weights, *index, *candidates),
            Op::StreamNorm { x, norm, streams, out } => self.stream_norm(*x, *norm, *streams, *out),
            Op::ScaledSilu { x, scale } => self.write(*x, |step, rows| {
                step.cpu.scaled_silu(rows, *scale);
                Ok(())
            }),
            Op::GatedMean { x, gate, streams, out } => self.gated_mean(*x, *gate, *streams, *out),
            Op::Inject { y, weights, streams, x } => self.inject(*y, *weights, *streams, *x),
            Op::HyperRead { x, weights, from, hyper, out } => {
                self.hyper_read(*x, (*weights, *from), *hyper, *out)
            }
            Op::HyperLast { x, weights, streams, out } => self.hyper_last(*x, *weights, *streams, *out),
            Op::HyperWrite { y, weights, hyper, x } => self.hyper_write(*y, *weights, *hyper, *x),
            Op::StreamMean { x, streams, out, first } => self.stream_mean(*x, *streams, (*out, *first)),
            Op::Ngrams { ngrams, out } => self.ngrams(*ngrams, *out),
            Op::NgramMix { ngrams, key, value, x } => self.ngram_mix(*ngrams, *key, *value, *x),
            Op::Route { x, norm, normed, router, used } => self.route(*x, *norm, *normed, router, *used),
            Op::Experts { normed, experts, out } => self.experts(*normed, experts, *out),
            Op::Gated { normed, gated, out } => self.gated(*normed, gated, *out),
        }
    }

    fn project_rows(
        &mut self,
        x: Buffer,
        rows: usize,
        norm: Option<Gain>,
        parts: &[Projection],
    ) -> Result<(), KernelError> {
        let mut outs: Vec<Vec<f32>> = parts.iter().map(|part| self.take(part.out)).collect();
        let mut kernel_parts = Vec::with_capacity(parts.len());
        for (part, out) in parts.iter().zip(&mut outs) {
            kernel_parts.push(Part {
                weight: self.model.matrix(part.weight)?,
                bias: part.bias.map(|id| self.model.vector(id)),
                out,
                accumulate: part.accumulate,
            });
        }
        let norm = norm.map(|norm| self.model.norm(norm));
        let scratch = &mut self.scratch.products;
        self.cpu.project(&self.buffers[x.index], rows, norm, &mut kernel_parts, scratch)?;
        for (part, out) in parts.iter().zip(outs) {
            self.put(part.out, out);
        }
        Ok(())
    }

    fn route(
        &mut self,
        x: Buffer,
        norm: Option<Gain>,
        normed: Buffer,
        router: &Routing,
        used: usize,
    ) -> Result<(), KernelError> {
        let mut spec = RouterSpec::softmax(used);
        (spec.renormalize, spec.scale) = (router.spec.renormalize, router.spec.scale);
        spec.score = match router.spec.scores {
            Scores::Softmax => RouterScore::Softmax,
            Scores::Sigmoid => RouterScore::Sigmoid,
            Scores::SqrtSoftplus => RouterScore::SqrtSoftplus,
        };
        spec.groups =
            router.spec.groups.map(|groups| RouterGroups { count: groups.count, used: groups.used });
        if let Some(norm) = norm {
            self.write(normed, |step, rows| {
                step.cpu.rms_norm(&step.buffers[x.index], step.rows(&x), step.model.norm(norm), rows)
            })?;
        }
        let bias = router.bias.map(|id| self.model.vector(id));
        let chosen = router.by_token.map(|id| self.chosen(self.model.numbers(id), normed.rows, used));
        let chosen = chosen.as_deref();
        let router = RouterWeights { matrix: self.model.matrix(router.weight)?, bias, chosen };
        let (rows, count) = (&self.buffers[normed.index], self.rows(&normed));
        self.cpu.route(rows, count, router, &spec, self.routes, &mut self.scratch.products)
    }

    /// The experts that a table (`[vocab][used]`) has for the tokens of rows; past its end, for those that are not there.
    fn chosen(&self, table: &[u32], rows: Rows, used: usize) -> Vec<u32> {
        let of = |token: u32| {
            let start = token as usize * used;
            table.get(start..start + used).map_or_else(|| vec![u32::MAX; used], <[u32]>::to_vec)
        };
        match rows {
            Rows::All => self.batch.tokens.iter().flat_map(|&token| of(token)).collect(),
            Rows::Outputs => self.batch.outputs.iter().flat_map(|&row| of(self.batch.tokens[row])).collect(),
        }
    }

    fn experts(&mut self, normed: Buffer, stacks: &ExpertStacks, out: Buffer) -> Result<(), KernelError> {
        let experts = Experts {
            gate: self.model.stack(stacks.gate)?,
            up: self.model.stack(stacks.up)?,
            down: self.model.stack(stacks.down)?,
            activation: activation(stacks.act),
        };
        self.write(out, |step, rows| {
            let normed = &step.buffers[normed.index];
            step.cpu.experts(normed, step.routes, &experts, rows, &mut step.scratch.products)
        })
    }

    fn gated(&mut self, normed: Buffer, gated: &Gated, out: Buffer) -> Result<(), KernelError> {
        let ffn = Ffn {
            gate: self.model.matrix(gated.gate)?,
            up: self.model.matrix(gated.up)?,
            down: self.model.matrix(gated.down)?,
            activation: activation(gated.act),
            share: gated.share.map(|id| self.model.vector(id)),
            accumulate: gated.accumulate,
        };
        self.write(out, |step, rows| {
            let (input, count) = (&step.buffers[normed.index], step.rows(&normed));
            step.cpu.dense_ffn(input, count, None, &ffn, rows, &mut step.scratch.products)
        })
    }
}

fn activation(act: Act) -> Activation {
    match act {
        Act::Silu => Activation::Silu,
        Act::GeluTanh => Activation::GeluTanh,
        Act::ClampedSilu { limit } => Activation::ClampedSilu { limit },
    }
}
