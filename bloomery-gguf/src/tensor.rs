//! A tensor's entry in a file: name, shape, format and place.

use crate::{Format, GgufError};

/// The most dimensions a tensor can have.
pub(crate) const MAX_RANK: u32 = 4;

/// A tensor of a file. Its bytes come from [`Gguf::data`](crate::Gguf::data).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tensor {
    /// The name, for example `blk.0.attn_q.weight`.
    pub name: String,
    /// The dimensions in values, the fastest first: a matrix has `[row length, rows]`. One to four, none
    /// zero.
    pub dims: Vec<u64>,
    /// How the values are stored.
    pub format: Format,
    pub(crate) shard: usize,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl Tensor {
    /// Values in a row: the first dimension.
    #[must_use]
    pub fn row_len(&self) -> u64 {
        self.dims.first().copied().unwrap_or(1)
    }

    /// How many rows: the product of the other dimensions.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.dims.iter().skip(1).product()
    }

    /// How many values.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// The size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.len as u64
    }

    /// Which file of a split model holds the bytes, from 0.
    #[must_use]
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// Where the bytes start, from the start of that file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }
}

/// The size in bytes of a tensor, after every check of its shape.
pub(crate) fn checked_size(tensor: &str, dims: &[u64], format: Format) -> Result<usize, GgufError> {
    let rank = u32::try_from(dims.len()).unwrap_or(u32::MAX);
    if !(1..=MAX_RANK).contains(&rank) {
        return Err(GgufError::BadRank { tensor: tensor.to_owned(), rank, limit: MAX_RANK });
    }
    if dims.contains(&0) {
        return Err(GgufError::EmptyDimension { tensor: tensor.to_owned(), dims: dims.to_vec() });
    }
    if !dims[0].is_multiple_of(format.block_len() as u64) {
        return Err(GgufError::RaggedRow {
            tensor: tensor.to_owned(),
            row: dims[0],
            format,
            block: format.block_len(),
        });
    }
    let elements = dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
    elements
        .and_then(|elements| (elements / format.block_len() as u64).checked_mul(format.block_bytes() as u64))
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| GgufError::TooLarge { tensor: tensor.to_owned(), dims: dims.to_vec() })
}
