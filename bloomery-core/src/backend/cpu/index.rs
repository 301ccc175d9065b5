//! Indexes of attention layers in host memory, and the ops on them.

use bloomery_kernels::cpu::{
    Candidates, HeadSpec, IndexLayer, IndexLayerMut, IndexQuery, IndexShape, KernelError, LayerNorm, Pooling,
    Seen,
};

use super::cache::Pages;
use super::mixer::table;
use super::step::Step;
use crate::program::{self, Buffer, Index, IndexId};
use crate::state::PageId;

/// The index of one attention layer.
pub(super) struct LayerIndex {
    shape: IndexShape,
    pages: Pages,
}

impl LayerIndex {
    pub(super) fn new(shape: IndexShape, pages: usize) -> Self {
        Self { shape, pages: Pages::new(pages, shape.page_len() * size_of::<f32>()) }
    }

    fn read(&self) -> Result<IndexLayer<'_>, KernelError> {
        IndexLayer::new(self.shape, self.pages.values())
    }

    fn write(&mut self) -> Result<IndexLayerMut<'_>, KernelError> {
        IndexLayerMut::new(self.shape, self.pages.values_mut())
    }

    pub(super) fn page_bytes(&self) -> usize {
        self.pages.size()
    }

    pub(super) fn copy_page(&mut self, from: PageId, to: PageId) {
        self.pages.copy(from, to);
    }

    pub(super) fn read_page(&self, page: PageId, out: &mut Vec<u8>) {
        out.extend_from_slice(self.pages.page(page));
    }

    /// `bytes` has [`page_bytes`](Self::page_bytes).
    pub(super) fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        self.pages.page_mut(page).copy_from_slice(bytes);
    }
}

impl Step<'_> {
    pub(super) fn index_append(
        &mut self,
        keys: Buffer,
        gates: Option<Buffer>,
        id: IndexId,
    ) -> Result<(), KernelError> {
        let mut rows = self.take(keys);
        let model = self.model;
        let pooling = match &model.program.indexes[id.0].pooling {
            program::Pooling::Mean { k_norm, .. } => {
                Pooling::Mean { norm: model.norm(*k_norm), rope: model.index_rope(id) }
            }
            program::Pooling::Made { norm, rope_first, .. } => Pooling::Made {
                norm: norm.map(|norm| model.norm(norm)),
                rope: model.index_rope(id),
                rope_first: *rope_first,
            },
            program::Pooling::Softmax { norm: (gain, bias, eps), bias: gate_bias } => {
                let norm = LayerNorm { gain: model.vector(*gain), bias: model.vector(*bias), eps: *eps };
                Pooling::Softmax { norm, bias: model.vector(*gate_bias) }
            }
        };
        let gates = gates.map(|gates| self.buffers[gates.index].as_slice());
        let mut cache = self.indexes[id.0].write()?;
        let positions = self.batch.positions;
        self.cpu.index_append((&mut rows, gates), &pooling, &mut cache, &self.slots, positions)?;
        self.put(keys, rows);
        Ok(())
    }

    pub(super) fn select(
        &mut self,
        q: Buffer,
        weights: Option<Buffer>,
        id: IndexId,
        candidates: program::Candidates,
    ) -> Result<(), KernelError> {
        let mut rows = self.take(q);
        let (model, count) = (self.model, self.rows(&q));
        let Index { heads, width, keep, pooling, .. } = &model.program.indexes[id.0];
        let turned = match pooling {
            program::Pooling::Mean { q_norm, .. } => Some((Some(*q_norm), 0)),
            program::Pooling::Made { rope_first, .. } => Some((None, *rope_first)),
            program::Pooling::Softmax { .. } => None,
        };
        if let Some((q_norm, rope_first)) = turned {
            let (cpu, positions) = (self.cpu, self.batch.positions);
            let table = table(&mut self.tables, model, model.index_rope_of[id.0], positions)?;
            let mut spec = HeadSpec::rope(table);
            spec.q_norm = q_norm.map(|norm| model.norm(norm));
            spec.rope_first = rope_first;
            cpu.turn_heads(&mut rows, (count, *width), &spec)?;
        }
        let query = IndexQuery {
            q: &rows,
            heads: *heads,
            weights: weights.map(|weights| self.buffers[weights.index].as_slice()),
            scale: 1.0 / ((heads * width) as f32).sqrt(),
            keep: *keep,
            seen: if matches!(pooling, program::Pooling::Made { .. }) { Seen::Ends } else { Seen::Positions },
        };
        let candidates = match candidates {
            program::Candidates::None => Candidates::None,
            program::Candidates::Make { size, keep } => {
                Candidates::Make { spans: self.candidates, size, keep }
            }
            program::Candidates::Use { size } => Candidates::Use { spans: self.candidates, size },
        };
        let index = self.indexes[id.0].read()?;
        self.cpu.index_select(&query, &index, &self.views, self.masks, candidates)?;
        self.put(q, rows);
        Ok(())
    }
}
