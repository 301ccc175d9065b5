//! Ops of rows that stand for groups of positions.

use bloomery_kernels::cpu::{
    AttendedPart, AttentionSpec, GroupInput, GroupShape, GroupSpec, HeadSpec, KernelError, Masks, RopeTable,
    RowView,
};

use super::cache::Pages;
use super::mixer::table;
use super::step::Step;
use crate::program::{Attended, Attention, AttentionId, Buffer, GroupId};
use crate::weights::VectorId;

/// What positions of one layer give to groups that are not complete.
pub(super) struct LayerGroups {
    shape: GroupShape,
    pub(super) pages: Pages,
}

impl LayerGroups {
    pub(super) fn new(shape: GroupShape, pages: usize) -> Self {
        Self { shape, pages: Pages::new(pages, shape.page_len() * size_of::<f32>()) }
    }
}

impl Step<'_> {
    pub(super) fn summarise(
        &mut self,
        values: Buffer,
        gates: Option<Buffer>,
        id: GroupId,
        out: Buffer,
    ) -> Result<(), KernelError> {
        let model = self.model;
        let group = &model.program.groups[id.0];
        let spec = GroupSpec {
            places: group.places.map(|places| model.vector(places)),
            norm: model.norm(group.norm),
        };
        self.write(out, |step, rows| {
            let gates = gates.map(|gates| step.buffers[gates.index].as_slice());
            let input = GroupInput { values: &step.buffers[values.index], gates };
            let LayerGroups { shape, pages } = &mut step.groups[id.0];
            let places = (step.views.as_slice(), step.slots.as_slice());
            step.cpu.group_rows(*shape, (input, &spec), pages.values_mut(), places, rows)
        })
    }

    /// Only rows that end a group are put down.
    pub(super) fn summary_append(
        &mut self,
        rows: Buffer,
        positions: usize,
        id: AttentionId,
    ) -> Result<(), KernelError> {
        let ends = |&row: &usize| (self.batch.positions[row] as usize + 1).is_multiple_of(positions);
        let ends: Vec<usize> = (0..self.batch.positions.len()).filter(ends).collect();
        let first = |&row: &usize| (self.batch.positions[row] + 1) - positions as u32;
        let firsts: Vec<u32> = ends.iter().map(first).collect();
        let slots: Vec<_> = ends.iter().map(|&row| self.slots[row]).collect();
        let of_row = |&row: &usize| &self.buffers[rows.index][row * rows.cols..][..rows.cols];
        let mut keys: Vec<f32> = ends.iter().flat_map(of_row).copied().collect();
        let (model, attention) = (self.model, self.model.attention(id));
        let table = RopeTable::new(&model.ropes[model.rope(id)], &firsts)?;
        let mut spec = HeadSpec::rope(&table);
        spec.rope_first = attention.rope_first;
        let mut cache = self.caches[id.0].write()?;
        self.cpu.append_shared(&mut keys, &spec, &mut cache, &slots)
    }

    pub(super) fn shared_append(&mut self, q: Buffer, k: Buffer, id: AttentionId) -> Result<(), KernelError> {
        let (mut queries, mut keys) = (self.take(q), self.take(k));
        let (model, attention) = (self.model, self.model.attention(id));
        let table = table(&mut self.tables, model, model.rope(id), self.batch.positions)?;
        let mut spec = HeadSpec::rope(table);
        spec.rope_first = attention.rope_first;
        spec.q_norm = attention.q_norm.map(|norm| model.norm(norm));
        self.cpu.turn_heads(&mut queries, (self.batch.tokens.len(), attention.key_dim), &spec)?;
        spec.k_norm = attention.k_norm.map(|norm| model.norm(norm));
        let mut cache = self.caches[id.0].write()?;
        self.cpu.append_shared(&mut keys, &spec, &mut cache, &self.slots)?;
        self.put(q, queries);
        self.put(k, keys);
        Ok(())
    }

    pub(super) fn select_ends(&mut self, positions: usize) {
        self.cpu.group_ends(positions, &self.views, self.masks);
    }

    pub(super) fn attend_part(
        &mut self,
        q: Buffer,
        id: AttentionId,
        out: Attended,
    ) -> Result<(), KernelError> {
        let Attention { heads, scale, window, is_masked, .. } = *self.model.attention(id);
        let mut spec = AttentionSpec::new(heads, scale);
        spec.window = window.map(|window| u32::try_from(window).unwrap_or(u32::MAX));
        let mut sums = self.take(out.sums);
        self.write(out.values, |step, rows| {
            let (cache, queries) = (step.caches[id.0].read()?, &step.buffers[q.index]);
            let masked = masked(&step.views, step.masks, is_masked);
            let views = masked.as_deref().unwrap_or(&step.views);
            let out = (rows, sums.as_mut_slice());
            step.cpu.attention_part(queries, &spec, &cache, views, out, &mut step.scratch.attention)
        })?;
        self.put(out.sums, sums);
        Ok(())
    }

    pub(super) fn blend(
        &mut self,
        parts: [Attended; 2],
        sinks: VectorId,
        out: Buffer,
    ) -> Result<(), KernelError> {
        let sinks = self.model.vector(sinks);
        self.write(out, |step, rows| {
            let parts = parts.map(|part| AttendedPart {
                values: &step.buffers[part.values.index],
                sums: &step.buffers[part.sums.index],
            });
            step.cpu.blend(parts, sinks, out.cols / sinks.len().max(1), rows)
        })
    }

    pub(super) fn turn_back(&mut self, x: Buffer, id: AttentionId) -> Result<(), KernelError> {
        let mut rows = self.take(x);
        let (model, attention) = (self.model, self.model.attention(id));
        let table = table(&mut self.tables, model, model.rope(id), self.batch.positions)?.reversed();
        let mut spec = HeadSpec::rope(&table);
        spec.rope_first = attention.rope_first;
        self.cpu.turn_heads(&mut rows, (self.batch.tokens.len(), attention.value_dim), &spec)?;
        self.put(x, rows);
        Ok(())
    }
}

/// Rows with what was chosen for them.
pub(super) fn masked<'v>(
    views: &[RowView<'v>],
    masks: &'v Masks,
    is_masked: bool,
) -> Option<Vec<RowView<'v>>> {
    let view = |(row, view): (usize, &RowView<'v>)| RowView { mask: masks.row(row), ..*view };
    is_masked.then(|| views.iter().enumerate().map(view).collect())
}
