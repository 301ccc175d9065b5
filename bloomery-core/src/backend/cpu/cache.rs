//! Key/value caches of all attention layers in host memory.

use bloomery_kernels::cpu::{Aligned, KernelError, KvLayer, KvLayerMut, KvShape};

use crate::state::PageId;

/// Pages of equal size. Memory that a session never reaches is never used.
pub(super) struct Pages {
    memory: Aligned,
    size: usize,
}

impl Pages {
    /// Of `size` bytes each.
    pub(super) fn new(pages: usize, size: usize) -> Self {
        Self { memory: Aligned::zeroed(pages * size), size }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// All of them, for kernels.
    pub(super) fn values(&self) -> &[f32] {
        self.memory.values()
    }

    /// As [`values`](Self::values), to be written to.
    pub(super) fn values_mut(&mut self) -> &mut [f32] {
        self.memory.values_mut()
    }

    pub(super) fn page(&self, page: PageId) -> &[u8] {
        &self.memory.bytes()[page as usize * self.size..][..self.size]
    }

    pub(super) fn page_mut(&mut self, page: PageId) -> &mut [u8] {
        &mut self.memory.bytes_mut()[page as usize * self.size..][..self.size]
    }

    pub(super) fn copy(&mut self, from: PageId, to: PageId) {
        let (size, from) = (self.size, from as usize * self.size);
        self.memory.bytes_mut().copy_within(from..from + size, to as usize * size);
    }
}

/// The cache of one attention layer.
pub(super) struct LayerCache {
    shape: KvShape,
    keys: Pages,
    values: Pages,
}

impl LayerCache {
    pub(super) fn new(shape: KvShape, pages: usize) -> Self {
        let (keys, values) = (shape.key_page_bytes(), shape.value_page_bytes());
        Self { shape, keys: Pages::new(pages, keys), values: Pages::new(pages, values) }
    }

    pub(super) fn read(&self) -> Result<KvLayer<'_>, KernelError> {
        KvLayer::new(self.shape, self.keys.memory.bytes(), self.values.memory.bytes())
    }

    pub(super) fn write(&mut self) -> Result<KvLayerMut<'_>, KernelError> {
        KvLayerMut::new(self.shape, self.keys.memory.bytes_mut(), self.values.memory.bytes_mut())
    }

    pub(super) fn page_bytes(&self) -> usize {
        self.keys.size + self.values.size
    }

    pub(super) fn copy_page(&mut self, from: PageId, to: PageId) {
        self.keys.copy(from, to);
        self.values.copy(from, to);
    }

    pub(super) fn read_page(&self, page: PageId, out: &mut Vec<u8>) {
        out.extend_from_slice(self.keys.page(page));
        out.extend_from_slice(self.values.page(page));
    }

    /// `bytes` has [`page_bytes`](Self::page_bytes).
    pub(super) fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        let (keys, values) = bytes.split_at(self.keys.size);
        self.keys.page_mut(page).copy_from_slice(keys);
        self.values.page_mut(page).copy_from_slice(values);
    }
}
