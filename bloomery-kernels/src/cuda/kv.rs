//! The cache on a card: pages of 64 positions in the layout of `abi::attention`.

use std::sync::Arc;

use super::memory::Allocation;
use super::{CudaError, Span};
use crate::abi::attention::{F16, F32, PAGE, Paged, Q8_0, WIDEST_KEY, WIDEST_VALUE};
use crate::cpu::KvType;

const NAME: &str = "a cache";

/// Shape and element type of one layer's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KvCache {
    kv_heads: usize,
    key_dim: usize,
    value_dim: usize,
    kind: KvType,
}

impl KvCache {
    /// `kv_heads` heads of `key_dim` and `value_dim` values.
    ///
    /// # Errors
    /// [`CudaError::Contract`] unless there is a head, keys have a multiple of 8 values up to 576 and values one of 16 up to 512,
    /// both multiples of 32 for [`KvType::Q8_0`].
    pub fn new(kv_heads: usize, key_dim: usize, value_dim: usize, kind: KvType) -> Result<Self, CudaError> {
        let heads = kv_heads > 0 && kv_heads <= 1024;
        CudaError::require(NAME, "KV heads", kv_heads as u64, heads, || "1 to 1024".to_owned())?;
        let steps = if kind == KvType::Q8_0 { [32, 32] } else { [8, 16] };
        for (what, dim, step, most) in [
            ("the width of a key", key_dim, steps[0], WIDEST_KEY),
            ("the width of a value", value_dim, steps[1], WIDEST_VALUE),
        ] {
            let fits = dim > 0 && dim.is_multiple_of(step) && dim <= most as usize;
            CudaError::require(NAME, what, dim as u64, fits, || {
                format!("a multiple of {step}, up to {most}")
            })?;
        }
        Ok(Self { kv_heads, key_dim, value_dim, kind })
    }

    /// KV heads.
    #[must_use]
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Values of a key of one head.
    #[must_use]
    pub fn key_dim(&self) -> usize {
        self.key_dim
    }

    /// Values of a value of one head.
    #[must_use]
    pub fn value_dim(&self) -> usize {
        self.value_dim
    }

    /// Element type.
    #[must_use]
    pub fn kind(&self) -> KvType {
        self.kind
    }

    /// Bytes of a page's keys, all heads: they lie together, page after page.
    #[must_use]
    pub fn key_page_bytes(&self) -> usize {
        self.kv_heads * self.kind.bytes(PAGE as usize * self.key_dim)
    }

    /// Bytes of a page's values, all heads: they lie together, page after page.
    #[must_use]
    pub fn value_page_bytes(&self) -> usize {
        self.kv_heads * self.kind.bytes(PAGE as usize * self.value_dim)
    }

    /// Bytes of a page of this layer.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.key_page_bytes() + self.value_page_bytes()
    }
}

/// One layer's cache and where the rows of a step are in it.
///
/// Kernels read `table`, `positions` and `sequences`, and what the cache held before the step, before the launch right
/// before theirs has ended: that launch must not write any of these.
#[derive(Debug, Clone)]
pub struct KvRows {
    /// Shape and type.
    pub shape: KvCache,
    /// `[pages]` of [`KvCache::key_page_bytes`].
    pub keys: Span<u8>,
    /// `[pages]` of [`KvCache::value_page_bytes`].
    pub values: Span<u8>,
    /// `[sequences][stride]`: pages in order of position. Appending to a page that the cache does not have does nothing.
    pub table: Span<u32>,
    /// Entries of a sequence.
    pub stride: usize,
    /// `[rows]`: rows of a sequence follow each other, in ascending order.
    pub positions: Span<u32>,
    /// `[rows]`: lines of `table`.
    pub sequences: Span<u32>,
}

impl KvRows {
    /// Checks the lengths for `rows` rows of the kernel `name`.
    pub(super) fn arguments(&self, name: &'static str, rows: usize) -> Result<Paged, CudaError> {
        let Self { shape, keys, values, table, stride, positions, sequences } = self;
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(name, what, found as u64, expected as u64);
        let most = 1 << 24;
        CudaError::require(name, "rows", rows as u64, (1..=most).contains(&rows), || format!("1 to {most}"))?;
        equal("positions", positions.len(), rows)?;
        equal("sequences", sequences.len(), rows)?;
        let pages = keys.len() / shape.key_page_bytes();
        let holds = pages > 0 && pages < u32::MAX as usize;
        CudaError::require(name, "pages", pages as u64, holds, || "1 to 2^32 - 2".to_owned())?;
        equal("bytes of keys", keys.len(), pages * shape.key_page_bytes())?;
        equal("bytes of values", values.len(), pages * shape.value_page_bytes())?;
        let holds = *stride > 0 && *stride <= 1 << 24 && table.len() >= *stride;
        let rule = || format!("1 to 2^24 and at most {}", table.len());
        CudaError::require(name, "entries of a sequence", *stride as u64, holds, rule)?;
        let addresses = keys.address() | values.address();
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(name, "a page's address", addresses, addresses.is_multiple_of(16), rule)?;
        Ok(Paged {
            keys: keys.address(),
            values: values.address(),
            table: table.address(),
            positions: positions.address(),
            sequences: sequences.address(),
            tables: (table.len() / stride) as u32,
            stride: *stride as u32,
            pages: pages as u32,
            kv_heads: shape.kv_heads as u32,
            key_dim: shape.key_dim as u32,
            value_dim: shape.value_dim as u32,
            kind: match shape.kind {
                KvType::F32 => F32,
                KvType::F16 => F16,
                KvType::Q8_0 => Q8_0,
            },
            rows: rows as u32,
        })
    }

    /// All the memory.
    pub(super) fn uses(&self) -> Vec<Arc<Allocation>> {
        let words = [&self.table, &self.positions, &self.sequences].map(|span| span.memory().clone());
        let bytes = [&self.keys, &self.values].map(|span| span.memory().clone());
        words.into_iter().chain(bytes).collect()
    }
}
