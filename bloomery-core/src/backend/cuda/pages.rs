//! Key/value caches and indexes of all attention layers, and open groups, in the memory of a card.

use bloomery_kernels::cuda::{Buffer, CudaError, Device, GroupCache, IndexCache, KvCache, Span, Stream};

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

    fn count(&self) -> usize {
        self.memory.len() / self.size.max(1)
    }

    /// Has `pages` pages from now on, of which those that both have stay. False, and nothing has changed, if there is no memory.
    fn resize(&mut self, stream: &mut Stream, pages: usize) -> Result<bool, CudaError> {
        if pages == self.count() {
            return Ok(true);
        }
        let memory = match stream.device().alloc::<u8>(pages * self.size) {
            Err(CudaError::Memory { .. }) => return Ok(false),
            memory => memory?,
        };
        let both = 0..memory.len().min(self.memory.len());
        stream.copy(&self.memory.slice(both.clone())?, &memory.slice(both)?)?;
        stream.synchronize()?;
        self.memory = memory;
        Ok(true)
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

/// The index of one attention layer.
#[derive(Debug)]
pub(super) struct LayerIndex {
    pub(super) shape: IndexCache,
    pages: Pages,
}

impl LayerIndex {
    /// All pages.
    pub(super) fn memory(&self) -> Span<f32> {
        self.pages.memory.span().cast()
    }
}

/// What positions of one layer give to groups that are not complete.
#[derive(Debug)]
pub(super) struct LayerGroups {
    pub(super) shape: GroupCache,
    /// Groups of one position keep nothing.
    pages: Option<Pages>,
}

impl LayerGroups {
    /// All pages, if there are any.
    pub(super) fn memory(&self) -> Option<Span<f32>> {
        self.pages.as_ref().map(|pages| pages.memory.span().cast())
    }
}

/// The shapes of all of them.
#[derive(Debug)]
pub(super) struct Shapes {
    pub(super) layers: Vec<KvCache>,
    pub(super) indexes: Vec<IndexCache>,
    pub(super) groups: Vec<GroupCache>,
}

/// The caches of all layers, their indexes and groups.
#[derive(Debug)]
pub(super) struct Caches {
    pub(super) layers: Vec<LayerCache>,
    pub(super) indexes: Vec<LayerIndex>,
    pub(super) groups: Vec<LayerGroups>,
}

impl Caches {
    pub(super) fn new(device: &Device, shapes: Shapes, pages: usize) -> Result<Self, CudaError> {
        let layer = |shape: KvCache| {
            let keys = Pages::new(device, pages, shape.key_page_bytes())?;
            let values = Pages::new(device, pages, shape.value_page_bytes())?;
            Ok(LayerCache { shape, keys, values })
        };
        let index = |shape: IndexCache| {
            let pages = Pages::new(device, pages, shape.page_len() * size_of::<f32>())?;
            Ok(LayerIndex { shape, pages })
        };
        let group = |shape: GroupCache| {
            let size = shape.page_len() * size_of::<f32>();
            let pages = (size > 0).then(|| Pages::new(device, pages, size)).transpose()?;
            Ok(LayerGroups { shape, pages })
        };
        Ok(Self {
            layers: shapes.layers.into_iter().map(layer).collect::<Result<_, CudaError>>()?,
            indexes: shapes.indexes.into_iter().map(index).collect::<Result<_, CudaError>>()?,
            groups: shapes.groups.into_iter().map(group).collect::<Result<_, CudaError>>()?,
        })
    }

    pub(super) fn page_bytes(&self) -> usize {
        self.all().map(|pages| pages.size).sum()
    }

    /// Pages that all of them have.
    pub(super) fn pages(&self) -> usize {
        self.all().map(Pages::count).min().unwrap_or(0)
    }

    /// Bytes of all pages.
    pub(super) fn bytes(&self) -> usize {
        self.all().map(|pages| pages.memory.len()).sum()
    }

    /// Bytes of one page of the largest cache.
    pub(super) fn largest_page(&self) -> usize {
        self.all().map(|pages| pages.size).max().unwrap_or(0)
    }

    /// Has `pages` pages from now on, of which those that both have stay; one cache after the other, so that little memory is
    /// needed twice. Returns how many there are: as before, if there is no memory for more.
    pub(super) fn resize(&mut self, stream: &mut Stream, pages: usize) -> Result<usize, CudaError> {
        if !self.resize_all(stream, pages)? {
            // A cache that has grown alone is of no use.
            let before = self.pages();
            self.resize_all(stream, before)?;
        }
        Ok(self.pages())
    }

    fn resize_all(&mut self, stream: &mut Stream, pages: usize) -> Result<bool, CudaError> {
        let caches = self.layers.iter_mut().flat_map(|layer| [&mut layer.keys, &mut layer.values]);
        let indexes = self.indexes.iter_mut().map(|index| &mut index.pages);
        let groups = self.groups.iter_mut().filter_map(|group| group.pages.as_mut());
        for cache in caches.chain(indexes).chain(groups) {
            if !cache.resize(stream, pages)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Queues copies.
    pub(super) fn copy(&self, stream: &mut Stream, from: PageId, to: PageId) -> Result<(), CudaError> {
        self.all().try_for_each(|pages| stream.copy(&pages.page(from)?, &pages.page(to)?))
    }

    /// A page of every cache.
    pub(super) fn parts(&self, page: PageId) -> Result<Vec<Span<u8>>, CudaError> {
        self.all().map(|pages| pages.page(page)).collect()
    }

    fn all(&self) -> impl Iterator<Item = &Pages> {
        let caches = self.layers.iter().flat_map(|layer| [&layer.keys, &layer.values]);
        let groups = self.groups.iter().filter_map(|group| group.pages.as_ref());
        caches.chain(self.indexes.iter().map(|index| &index.pages)).chain(groups)
    }
}
