//! Ops of attention and of delta nets.

use std::ops::Range;

use bloomery_kernels::cpu::{
    AttentionSpec, DeltaInput, DeltaRows, DeltaRun, HeadSpec, KernelError, RopeTable, RowView,
};

use super::groups::masked;
use super::model::Model;
use super::step::Step;
use crate::backend::Batch;
use crate::program::{Attention, AttentionId, Buffer, DeltaId, Gain, Qkv};
use crate::weights::HeadsId;

/// Rows of the step by sequence, and what becomes of their states.
#[derive(Debug, Default)]
pub(super) struct Runs {
    pub(super) runs: Vec<Run>,
    pub(super) saves: Vec<(usize, usize)>,
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) rows: Range<usize>,
    pub(super) from: Option<usize>,
    saves: Range<usize>,
}

impl Runs {
    pub(super) fn of(batch: &Batch<'_>) -> Self {
        let saves: Vec<(usize, usize)> =
            batch.saves.iter().map(|&(row, state)| (row, state as usize)).collect();
        let mut runs = Vec::new();
        let mut rows = 0..0;
        for same in batch.sequences.chunk_by(|a, b| a == b) {
            rows = rows.end..rows.end + same.len();
            let from = batch.states.get(same[0]).copied().flatten().map(|state| state as usize);
            let first = saves.partition_point(|save| save.0 < rows.start);
            let last = saves.partition_point(|save| save.0 < rows.end);
            runs.push(Run { rows: rows.clone(), from, saves: first..last });
        }
        Self { runs, saves }
    }

    /// As the kernel takes them.
    pub(super) fn views(&self) -> Vec<DeltaRun<'_>> {
        let view = |run: &Run| DeltaRun {
            first: run.rows.start,
            rows: run.rows.len(),
            from: run.from,
            saves: &self.saves[run.saves.clone()],
        };
        self.runs.iter().map(view).collect()
    }
}

/// The table of a rotation, made when the first layer asks for it.
pub(super) fn table<'t>(
    tables: &'t mut [Option<RopeTable>],
    model: &Model,
    rope: usize,
    positions: &[u32],
) -> Result<&'t RopeTable, KernelError> {
    let table = match tables[rope].take() {
        Some(table) => table,
        None => RopeTable::new(&model.ropes[rope], positions)?,
    };
    Ok(tables[rope].insert(table))
}

impl<'a> Step<'a> {
    pub(super) fn rope_append(
        &mut self,
        q: Buffer,
        k: Buffer,
        v: Buffer,
        id: AttentionId,
    ) -> Result<(), KernelError> {
        let (mut queries, mut keys) = (self.take(q), self.take(k));
        let attention = self.model.attention(id);
        let mut spec =
            HeadSpec::rope(table(&mut self.tables, self.model, self.model.rope(id), self.batch.positions)?);
        spec.q_norm = attention.q_norm.map(|norm| self.model.norm(norm));
        spec.k_norm = attention.k_norm.map(|norm| self.model.norm(norm));
        spec.rope_first = attention.rope_first;
        let (values, mut cache) = (&self.buffers[v.index], self.caches[id.0].write()?);
        self.cpu.rope_append(&mut queries, &mut keys, values, &spec, &mut cache, &self.slots)?;
        self.put(q, queries);
        self.put(k, keys);
        Ok(())
    }

    pub(super) fn latent_append(
        &mut self,
        q: Buffer,
        kv: Buffer,
        norm: Gain,
        id: AttentionId,
    ) -> Result<(), KernelError> {
        let (mut queries, mut latents) = (self.take(q), self.take(kv));
        let table = table(&mut self.tables, self.model, self.model.rope(id), self.batch.positions)?;
        let (norm, mut cache) = (self.model.norm(norm), self.caches[id.0].write()?);
        self.cpu.latent_append(&mut queries, &mut latents, norm, table, &mut cache, &self.slots)?;
        self.put(q, queries);
        self.put(kv, latents);
        Ok(())
    }

    /// Rows that see all of their sequence.
    fn whole(&self) -> Vec<RowView<'a>> {
        let ends = self.batch.ends();
        self.views.iter().zip(ends).map(|(view, end)| RowView { len: end + 1, ..*view }).collect()
    }

    pub(super) fn attend(&mut self, q: Buffer, id: AttentionId, out: Buffer) -> Result<(), KernelError> {
        let Attention { heads, scale, window, is_masked, whole, sinks, .. } = *self.model.attention(id);
        let mut spec = AttentionSpec::new(heads, scale);
        spec.sinks = sinks.map(|sinks| self.model.vector(sinks));
        spec.window = window.map(|window| u32::try_from(window).unwrap_or(u32::MAX));
        self.write(out, |step, rows| {
            let (cache, queries) = (step.caches[id.0].read()?, &step.buffers[q.index]);
            let changed = match whole {
                true => Some(step.whole()),
                false => masked(&step.views, step.masks, is_masked),
            };
            let views = changed.as_deref().unwrap_or(&step.views);
            step.cpu.attention(queries, &spec, &cache, views, rows, &mut step.scratch.attention)
        })
    }

    pub(super) fn per_head(&mut self, x: Buffer, weights: HeadsId, out: Buffer) -> Result<(), KernelError> {
        let stack = self.model.heads(weights)?;
        let tail = (x.cols / stack.count()).saturating_sub(stack.cols());
        self.write(out, |step, values| {
            let (input, rows) = (&step.buffers[x.index], step.rows(&x));
            step.cpu.per_head(input, rows, &stack, tail, values, &mut step.scratch.products)
        })
    }

    pub(super) fn delta(
        &mut self,
        qkv: Qkv,
        [z, beta, alpha]: [Buffer; 3],
        id: DeltaId,
        out: Buffer,
    ) -> Result<(), KernelError> {
        self.write(out, |step, rows| {
            let read = |buffer: Buffer| step.buffers[buffer.index].as_slice();
            let qkv = match qkv {
                Qkv::Joined(all) => DeltaRows::Joined(read(all)),
                Qkv::Apart(kinds) => DeltaRows::Apart(kinds.map(read)),
            };
            let input = DeltaInput { qkv, z: read(z), beta: read(beta), alpha: read(alpha) };
            let (delta, runs) = (&step.model.deltas[id.0], step.runs.views());
            let states = step.states[id.0].values();
            step.cpu.delta(delta, &input, &runs, states, rows, &mut step.scratch.delta)
        })
    }
}
