//! The CPU backend: every op of the vocabulary is one kernel call.

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::{
    Activation, AttentionScratch, AttentionSpec, Cpu, Experts, Ffn, HeadSpec, KernelError, Matrix, Norm,
    Part, Pool, RopeSpec, RopeTable, RouterSpec, Routes, RowSlot, RowView, Scratch,
};

use super::cache::LayerCache;
use super::rope::rope_spec;
use super::{Answer, Backend, Batch, Readback};
use crate::def::{Act, Scores};
use crate::error::{EngineError, LoadError};
use crate::plan::Plan;
use crate::program::{Attention, AttentionId, Buffer, Gain, Op, Program, Projection, Routing, Rows};
use crate::state::{PAGE, PageId};
use crate::weights::{MatrixId, VectorId, Weights};

/// Weights in the file's mapping; caches and activations in host memory.
pub(crate) struct CpuBackend {
    cpu: Cpu,
    model: Model,
    caches: Vec<LayerCache>,
    buffers: Vec<Vec<f32>>,
    routes: Routes,
    scratch: Scratch,
    attention_scratch: AttentionScratch,
}

/// What steps only read.
struct Model {
    gguf: Gguf,
    program: Program,
    weights: Weights,
    vectors: Vec<Vec<f32>>,
    ropes: Vec<RopeSpec>,
}

impl CpuBackend {
    /// Caches of `pages` pages; vectors are read, matrices stay mapped.
    pub(crate) fn new(plan: Plan, pages: usize) -> Result<Self, LoadError> {
        let Plan { def, gguf, program, mut weights, threads, isa, numerics, kv, .. } = plan;
        if let Some(value) = program.ops.iter().find_map(missing) {
            let key = format!("{} on the CPU", def.architecture);
            return Err(LoadError::UnsupportedConfig { key, value, supported: "not yet" });
        }
        weights.join(&gguf);
        let vectors: Vec<Vec<f32>> =
            weights.vector_ids().map(|id| weights.vector(&gguf, id)).collect::<Result<_, _>>()?;
        let ropes = program
            .attentions
            .iter()
            .map(|attention| {
                let factors = attention.factors.map_or_else(Vec::new, |id| vectors[id.index()].clone());
                rope_spec(&attention.rope, factors)
            })
            .collect();
        let caches = program
            .attentions
            .iter()
            .map(|attention| Ok(LayerCache::new(attention.cache_shape(kv)?, pages)))
            .collect::<Result<_, KernelError>>()?;
        Ok(Self {
            cpu: Cpu::new(Pool::new(threads), isa, numerics),
            buffers: vec![Vec::new(); program.buffers.len()],
            model: Model { gguf, program, weights, vectors, ropes },
            caches,
            routes: Routes::default(),
            scratch: Scratch::default(),
            attention_scratch: AttentionScratch::default(),
        })
    }
}

impl Backend for CpuBackend {
    fn step(&mut self, mut batch: Batch<'_>) -> Result<Answer<'_>, EngineError> {
        let trace = batch.trace.take();
        let mut step = Step::new(self, &batch);
        step.size_buffers();
        let mut traced = Vec::new();
        let program = &step.model.program;
        // The head is the last op; hidden states are what it would have read.
        let wants_hidden = batch.want == Readback::Hidden;
        let (ops, last) = match (wants_hidden, program.ops.split_last()) {
            (true, Some((_, ops))) => (ops, Some(&program.hidden.op)),
            _ => (program.ops.as_slice(), None),
        };
        for op in ops.iter().chain(last) {
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

    fn copy_page(&mut self, from: PageId, to: PageId) {
        self.caches.iter_mut().for_each(|cache| cache.copy_page(from, to));
    }

    fn read_page(&mut self, page: PageId, out: &mut Vec<u8>) {
        self.caches.iter().for_each(|cache| cache.read_page(page, out));
    }

    fn write_page(&mut self, page: PageId, mut bytes: &[u8]) {
        for cache in &mut self.caches {
            let (now, rest) = bytes.split_at(cache.page_bytes());
            cache.write_page(page, now);
            bytes = rest;
        }
    }

    fn page_bytes(&self) -> usize {
        self.caches.iter().map(LayerCache::page_bytes).sum()
    }
}

/// One step under way.
struct Step<'a> {
    cpu: &'a Cpu,
    model: &'a Model,
    caches: &'a mut [LayerCache],
    buffers: &'a mut [Vec<f32>],
    routes: &'a mut Routes,
    scratch: &'a mut Scratch,
    attention_scratch: &'a mut AttentionScratch,
    batch: &'a Batch<'a>,
    slots: Vec<RowSlot>,
    views: Vec<RowView<'a>>,
    /// Cosines and sines of the step's positions, shared by the layers that turn alike.
    table: Option<(usize, RopeTable)>,
}

impl<'a> Step<'a> {
    fn new(backend: &'a mut CpuBackend, batch: &'a Batch<'a>) -> Self {
        let row = |(&position, &sequence): (&u32, &usize)| (position as usize, batch.pages[sequence]);
        let rows = || batch.positions.iter().zip(batch.sequences).map(row);
        let slots = rows()
            .map(|(position, pages)| RowSlot {
                page: pages[position / PAGE],
                offset: (position % PAGE) as u32,
            })
            .collect();
        let views = rows().map(|(position, pages)| RowView { pages, len: position as u32 + 1 }).collect();
        Self {
            cpu: &backend.cpu,
            model: &backend.model,
            caches: &mut backend.caches,
            buffers: &mut backend.buffers,
            routes: &mut backend.routes,
            scratch: &mut backend.scratch,
            attention_scratch: &mut backend.attention_scratch,
            batch,
            slots,
            views,
            table: None,
        }
    }

    fn size_buffers(&mut self) {
        for buffer in &self.model.program.buffers {
            let len = self.rows(buffer) * buffer.cols;
            self.buffers[buffer.index].resize(len, 0.0);
        }
    }

    fn rows(&self, buffer: &Buffer) -> usize {
        match buffer.rows {
            Rows::All => self.batch.tokens.len(),
            Rows::Outputs => self.batch.outputs.len(),
        }
    }

    /// Takes a buffer out to write to it; [`put`](Self::put) puts it back.
    fn take(&mut self, buffer: Buffer) -> Vec<f32> {
        std::mem::take(&mut self.buffers[buffer.index])
    }

    fn put(&mut self, buffer: Buffer, values: Vec<f32>) {
        self.buffers[buffer.index] = values;
    }

    fn run(&mut self, op: &Op) -> Result<(), KernelError> {
        match op {
            Op::Embed { table, out, .. } => {
                let mut rows = self.take(*out);
                self.cpu.embed(self.matrix(*table)?, self.batch.tokens, &mut rows)?;
                self.put(*out, rows);
                Ok(())
            }
            Op::Project { x, norm, parts } => self.project(*x, *norm, parts),
            Op::RopeAppend { q, k, v, attention } => self.rope_append(*q, *k, *v, *attention),
            Op::Attend { q, attention, out } => self.attend(*q, *attention, *out),
            Op::Take { from, to } => {
                let mut rows = self.take(*to);
                for (to, &row) in rows.chunks_exact_mut(from.cols).zip(self.batch.outputs) {
                    to.copy_from_slice(&self.buffers[from.index][row * from.cols..][..from.cols]);
                }
                self.put(*to, rows);
                Ok(())
            }
            Op::Route { x, norm, normed, router, used } => {
                let mut rows = self.take(*normed);
                let norm = self.model.norm(*norm);
                self.cpu.rms_norm(&self.buffers[x.index], self.rows(x), norm, &mut rows)?;
                let mut spec = RouterSpec::softmax(*used);
                (spec.renormalize, spec.scale) = (router.spec.renormalize, router.spec.scale);
                self.cpu.route(
                    &rows,
                    self.rows(x),
                    self.matrix(router.weight)?,
                    &spec,
                    self.routes,
                    self.scratch,
                )?;
                self.put(*normed, rows);
                Ok(())
            }
            Op::Experts { normed, experts, out } => {
                let mut rows = self.take(*out);
                let stack = |id| self.model.weights.stack(&self.model.gguf, id);
                let experts = Experts {
                    gate: stack(experts.gate)?,
                    up: stack(experts.up)?,
                    down: stack(experts.down)?,
                    activation: activation(experts.act),
                };
                let normed = &self.buffers[normed.index];
                self.cpu.experts(normed, self.routes, &experts, &mut rows, self.scratch)?;
                self.put(*out, rows);
                Ok(())
            }
            Op::Norm { x, norm, out } => {
                let mut rows = self.take(*out);
                let norm = self.model.norm(*norm);
                self.cpu.rms_norm(&self.buffers[x.index], self.rows(x), norm, &mut rows)?;
                self.put(*out, rows);
                Ok(())
            }
            Op::Gated { normed, gated, out } => {
                let ffn = Ffn {
                    gate: self.matrix(gated.gate)?,
                    up: self.matrix(gated.up)?,
                    down: self.matrix(gated.down)?,
                    activation: activation(gated.act),
                };
                let mut rows = self.take(*out);
                let (input, count) = (&self.buffers[normed.index], self.rows(normed));
                self.cpu.dense_ffn(input, count, None, &ffn, &mut rows, self.scratch)?;
                self.put(*out, rows);
                Ok(())
            }
            op => Err(KernelError::Shape {
                what: "op",
                value: 0,
                rule: missing(op).map_or("known", |_| "one that is here"),
            }),
        }
    }

    fn matrix(&self, id: MatrixId) -> Result<Matrix<'a>, KernelError> {
        self.model.weights.matrix(&self.model.gguf, id)
    }

    fn project(&mut self, x: Buffer, norm: Option<Gain>, parts: &[Projection]) -> Result<(), KernelError> {
        let mut outs: Vec<Vec<f32>> = parts.iter().map(|part| self.take(part.out)).collect();
        let mut kernel_parts = Vec::with_capacity(parts.len());
        for (part, out) in parts.iter().zip(&mut outs) {
            kernel_parts.push(Part {
                weight: self.matrix(part.weight)?,
                bias: part.bias.map(|id| self.model.vector(id)),
                out,
                accumulate: part.accumulate,
            });
        }
        let norm = norm.map(|norm| self.model.norm(norm));
        let rows = self.rows(&x);
        self.cpu.project(&self.buffers[x.index], rows, norm, &mut kernel_parts, self.scratch)?;
        for (part, out) in parts.iter().zip(outs) {
            self.put(part.out, out);
        }
        Ok(())
    }

    fn rope_append(&mut self, q: Buffer, k: Buffer, v: Buffer, id: AttentionId) -> Result<(), KernelError> {
        let (mut queries, mut keys) = (self.take(q), self.take(k));
        let attention = self.model.attention(id);
        let ropes = &self.model.ropes;
        let table = match self.table.take() {
            Some((of, table)) if ropes[of] == ropes[id.0] => (of, table),
            _ => (id.0, RopeTable::new(&ropes[id.0], self.batch.positions)?),
        };
        let table = &self.table.insert(table).1;
        let mut spec = HeadSpec::rope(table);
        spec.q_norm = attention.q_norm.map(|norm| self.model.norm(norm));
        spec.k_norm = attention.k_norm.map(|norm| self.model.norm(norm));
        let mut cache = self.caches[id.0].write()?;
        self.cpu.rope_append(
            &mut queries,
            &mut keys,
            &self.buffers[v.index],
            &spec,
            &mut cache,
            &self.slots,
        )?;
        self.put(q, queries);
        self.put(k, keys);
        Ok(())
    }

    fn attend(&mut self, q: Buffer, id: AttentionId, out: Buffer) -> Result<(), KernelError> {
        let mut rows = self.take(out);
        let Attention { heads, scale, window, .. } = *self.model.attention(id);
        let mut spec = AttentionSpec::new(heads, scale);
        spec.window = window.map(|window| u32::try_from(window).unwrap_or(u32::MAX));
        let cache = self.caches[id.0].read()?;
        let queries = &self.buffers[q.index];
        self.cpu.attention(queries, &spec, &cache, &self.views, &mut rows, self.attention_scratch)?;
        self.put(out, rows);
        Ok(())
    }
}

impl Model {
    fn vector(&self, id: VectorId) -> &[f32] {
        &self.vectors[id.index()]
    }

    fn norm(&self, gain: Gain) -> Norm<'_> {
        Norm { gain: self.vector(gain.gain), eps: gain.norm.eps }
    }

    fn attention(&self, id: AttentionId) -> &Attention {
        &self.program.attentions[id.0]
    }
}

fn activation(act: Act) -> Activation {
    match act {
        Act::Silu => Activation::Silu,
        // Refused when the model is loaded.
        Act::GeluTanh => Activation::Silu,
    }
}

/// What there is no kernel for.
fn missing(op: &Op) -> Option<String> {
    let what = match op {
        Op::Gate { .. } => "a gate of attention",
        Op::Absorb { .. } | Op::LatentAppend { .. } | Op::PerHead { .. } => "latent attention",
        Op::Delta { .. } => "a delta net",
        Op::AddNorm { .. } => "a norm after a part",
        Op::Gated { gated, .. } if gated.share.is_some() => "a gated shared expert",
        Op::Gated { gated, .. } if gated.act == Act::GeluTanh || !gated.accumulate => "GELU",
        Op::Embed { scale, .. } if *scale != 1.0 => "a scaled embedding",
        Op::Route { router: Routing { bias, spec, .. }, .. }
            if bias.is_some() || spec.groups.is_some() || spec.scores != Scores::Softmax =>
        {
            "sigmoid scores, a bias of the choice, or groups of experts"
        }
        _ => return None,
    };
    Some(what.to_owned())
}
