//! Paged storage of keys and values: one layer's pages of 64 positions.
//!
//! ```text
//! keys    [page][kv_head][4 blocks of 16 positions][key_dim][16 positions]
//!         Q8_0: int8 in that order, then f16 scales [4 blocks][key_dim / 32][16 positions]
//! values  [page][kv_head][64 positions][value_dim]
//!         Q8_0: int8 in that order, then f16 scales [value_dim / 32][64 positions]
//! ```
//!
//! The position is the fastest index of keys, because a score is a sum over dimensions: sixteen scores advance
//! together with no shuffle and no horizontal sum. An append touches as many cache lines as reading the block it lies
//! in, and attention reads that block right after.

mod write;

use super::KernelError;
use super::lanes::LANES;

pub(super) use write::{write_key, write_value};

/// Positions of a page.
pub const PAGE: usize = 64;
/// Dimensions that share a scale in [`KvType::Q8_0`].
pub(super) const GROUP: usize = 32;
/// Dimensions of other keys that attention takes at once.
pub(super) const KEY_GROUP: usize = 8;

/// Element type of cached keys or values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum KvType {
    /// 4 bytes a value, exact.
    F32,
    /// 2 bytes a value.
    #[default]
    F16,
    /// 34 bytes for 32 values: int8 with one f16 scale (largest magnitude / 127).
    Q8_0,
}

impl KvType {
    /// Bytes of `values` values (a multiple of 32 for [`KvType::Q8_0`]).
    #[must_use]
    pub fn bytes(self, values: usize) -> usize {
        match self {
            Self::F32 => 4 * values,
            Self::F16 => 2 * values,
            Self::Q8_0 => values + values / GROUP * 2,
        }
    }

    /// Dimensions of a value must be a multiple of this.
    fn value_step(self) -> usize {
        if self == Self::Q8_0 { GROUP } else { LANES }
    }

    /// Dimensions of a key must be a multiple of this: positions are the fastest index there.
    fn key_step(self) -> usize {
        if self == Self::Q8_0 { GROUP } else { KEY_GROUP }
    }
}

/// Shape and types of one layer's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KvShape {
    heads: usize,
    key_dim: usize,
    value_dim: usize,
    key_type: KvType,
    value_type: KvType,
}

impl KvShape {
    /// `heads` KV heads of `key_dim` and `value_dim` values.
    ///
    /// # Errors
    /// [`KernelError::Shape`] unless there is a head, the key width is a positive multiple of 8 and the value width one of 16
    /// (both of 32 for [`KvType::Q8_0`]).
    pub fn new(
        heads: usize,
        (key_dim, key_type): (usize, KvType),
        (value_dim, value_type): (usize, KvType),
    ) -> Result<Self, KernelError> {
        if heads == 0 {
            return Err(KernelError::Shape { what: "number of KV heads", value: heads, rule: "at least 1" });
        }
        for (what, value, step) in [
            ("key width of a head", key_dim, key_type.key_step()),
            ("value width of a head", value_dim, value_type.value_step()),
        ] {
            if value == 0 || !value.is_multiple_of(step) {
                let rule = match step {
                    GROUP => "a multiple of 32 for Q8_0",
                    LANES => "a multiple of 16",
                    _ => "a multiple of 8",
                };
                return Err(KernelError::Shape { what, value, rule });
            }
        }
        Ok(Self { heads, key_dim, value_dim, key_type, value_type })
    }

    /// KV heads.
    #[must_use]
    pub fn heads(&self) -> usize {
        self.heads
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

    /// Element type of keys.
    #[must_use]
    pub fn key_type(&self) -> KvType {
        self.key_type
    }

    /// Element type of values.
    #[must_use]
    pub fn value_type(&self) -> KvType {
        self.value_type
    }

    /// Bytes of a page's keys, all heads.
    #[must_use]
    pub fn key_page_bytes(&self) -> usize {
        self.heads * self.key_head_bytes()
    }

    /// Bytes of a page's values, all heads.
    #[must_use]
    pub fn value_page_bytes(&self) -> usize {
        self.heads * self.value_head_bytes()
    }

    pub(super) fn key_head_bytes(&self) -> usize {
        self.key_type.bytes(PAGE * self.key_dim)
    }

    pub(super) fn value_head_bytes(&self) -> usize {
        self.value_type.bytes(PAGE * self.value_dim)
    }

    /// Pages in buffers of these lengths, which must agree and be whole.
    fn pages(&self, keys: usize, values: usize) -> Result<usize, KernelError> {
        let pages = keys / self.key_page_bytes();
        KernelError::length("bytes of cached keys", pages * self.key_page_bytes(), keys)?;
        KernelError::length("bytes of cached values", pages * self.value_page_bytes(), values)?;
        Ok(pages)
    }
}

/// One layer's cache, for reading.
#[derive(Debug, Clone, Copy)]
pub struct KvLayer<'a> {
    pub(super) shape: KvShape,
    pub(super) pages: usize,
    pub(super) keys: &'a [u8],
    pub(super) values: &'a [u8],
}

impl<'a> KvLayer<'a> {
    /// Views `keys` and `values` as pages. Any alignment works; 64 bytes is fastest.
    ///
    /// # Errors
    /// [`KernelError::Length`] unless both hold the same whole number of pages.
    pub fn new(shape: KvShape, keys: &'a [u8], values: &'a [u8]) -> Result<Self, KernelError> {
        Ok(Self { shape, pages: shape.pages(keys.len(), values.len())?, keys, values })
    }

    /// Shape and types.
    #[must_use]
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// Pages in the buffers.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }
}

/// One layer's cache, for appending.
#[derive(Debug)]
pub struct KvLayerMut<'a> {
    pub(super) shape: KvShape,
    pub(super) pages: usize,
    pub(super) keys: &'a mut [u8],
    pub(super) values: &'a mut [u8],
}

impl<'a> KvLayerMut<'a> {
    /// As [`KvLayer::new`].
    ///
    /// # Errors
    /// [`KernelError::Length`] unless both hold the same whole number of pages.
    pub fn new(shape: KvShape, keys: &'a mut [u8], values: &'a mut [u8]) -> Result<Self, KernelError> {
        Ok(Self { shape, pages: shape.pages(keys.len(), values.len())?, keys, values })
    }

    /// The same pages for reading.
    #[must_use]
    pub fn view(&self) -> KvLayer<'_> {
        KvLayer { shape: self.shape, pages: self.pages, keys: self.keys, values: self.values }
    }

    /// Shape and types.
    #[must_use]
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// Pages in the buffers.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }
}

/// Where a row's key and value go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowSlot {
    /// Page of the layer.
    pub page: u32,
    /// Position inside the page, below [`PAGE`].
    pub offset: u32,
}
