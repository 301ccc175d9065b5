//! Key/value caches of all attention layers in the memory of a card.

use bloomery_kernels::cuda::{Buffer, CudaError, Device, KvCache, Span, Stream};

use crate::state::PageId;

/// Pages of equal size.
#[derive(Debug)]
struct Pages {
    memory: Buffer<u8>,
    size: usize,
}

impl Pages {
    fn new(device: &Device, pages: usize, size: usize) -> Result<Self, CudaError> {
        Ok(Self { memory: device.alloc(pages * size)?, size })
    }

    fn page(&self, page: PageId) -> Result<Span<u8>, CudaError> {
        let start = page as usize * self.size;
        self.memory.slice(start..start + self.size)
    }
}

/// The cache of one attention layer.
#[derive(Debug)]
pub(super) struct LayerCache {
    pub(super) shape: KvCache,
    keys: Pages,
    values: Pages,
}

impl LayerCache {
    /// All pages of keys, and all of values.
    pub(super) fn memory(&self) -> [Span<u8>; 2] {
        [self.keys.memory.span(), self.values.memory.span()]
    }
}

/// The caches of all layers.
#[derive(Debug)]
pub(super) struct Caches {
    pub(super) layers: Vec<LayerCache>,
}

impl Caches {
    pub(super) fn new(
        device: &Device,
        shapes: impl Iterator<Item = Result<KvCache, CudaError>>,
        pages: usize,
    ) -> Result<Self, CudaError> {
        let layer = |shape: Result<KvCache, CudaError>| {
            let shape = shape?;
            let keys = Pages::new(device, pages, shape.key_page_bytes())?;
            let values = Pages::new(device, pages, shape.value_page_bytes())?;
            Ok(LayerCache { shape, keys, values })
        };
        Ok(Self { layers: shapes.map(layer).collect::<Result<_, CudaError>>()? })
    }

    pub(super) fn page_bytes(&self) -> usize {
        self.all().map(|pages| pages.size).sum()
    }

    /// Queues copies.
    pub(super) fn copy(&self, stream: &mut Stream, from: PageId, to: PageId) -> Result<(), CudaError> {
        self.all().try_for_each(|pages| stream.copy(&pages.page(from)?, &pages.page(to)?))
    }

    /// Appends a page of every cache to `out`.
    pub(super) fn read(&self, stream: &mut Stream, page: PageId, out: &mut Vec<u8>) -> Result<(), CudaError> {
        self.all().try_for_each(|pages| {
            let start = out.len();
            out.resize(start + pages.size, 0);
            stream.download(&pages.page(page)?, &mut out[start..])
        })
    }

    /// Writes what [`read`](Self::read) gave.
    pub(super) fn write(&self, stream: &mut Stream, page: PageId, mut bytes: &[u8]) -> Result<(), CudaError> {
        self.all().try_for_each(|pages| {
            let (now, rest) = bytes.split_at(pages.size);
            bytes = rest;
            stream.upload(now, &pages.page(page)?)
        })
    }

    fn all(&self) -> impl Iterator<Item = &Pages> {
        self.layers.iter().flat_map(|layer| [&layer.keys, &layer.values])
    }
}
