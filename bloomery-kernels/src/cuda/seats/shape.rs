//! How much a desk has room for, and where the parts of it are.

use super::super::CudaError;
use crate::abi::seats::{OFFERED_ROWS, USED};

/// Words (of 8 bytes) of a cache line.
pub(super) const LINE: usize = 8;
pub(super) const NAME: &str = "a desk";

/// How much a [`Desk`](super::Desk) has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeskShape {
    /// Layers that ask.
    pub layers: usize,
    /// Rows of a step, at most: 1024 or fewer.
    pub rows: usize,
    /// Experts of a row, at most: 32 or fewer.
    pub used: usize,
    /// Values of a normalised row, at most.
    pub cols: usize,
    /// Values of a row of sums, at most.
    pub outputs: usize,
}

/// Where the parts start, in words of 8 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) done: usize,
    pub(super) told: usize,
    pub(super) failed: usize,
    pub(super) pairs: usize,
    /// Of a layer.
    pub(super) pairs_len: usize,
    pub(super) rows: usize,
    pub(super) sums: usize,
    pub(super) fetched: usize,
    pub(super) end: usize,
}

impl DeskShape {
    pub(super) fn places(&self) -> Places {
        let line = |words: usize| words.next_multiple_of(LINE);
        let done = self.layers * LINE;
        let told = done + self.layers * LINE;
        let failed = told + self.layers * LINE;
        let pairs = failed + LINE;
        let pairs_len = line(self.rows * self.used);
        let rows = pairs + self.layers * pairs_len;
        let sums = rows + line((self.rows * self.cols).div_ceil(2));
        let fetched = sums + line((self.rows * self.outputs).div_ceil(2));
        let end = fetched + pairs_len;
        Places { done, told, failed, pairs, pairs_len, rows, sums, fetched, end }
    }

    /// Words of a layer in the card's memory: a ticket and a state for every row.
    pub(super) fn states_len(&self) -> usize {
        1 + self.rows
    }

    /// Bytes of the host's memory. About 8 for each row of a layer are the card's.
    #[must_use]
    pub fn bytes(&self) -> usize {
        8 * self.places().end
    }

    pub(super) fn check(&self) -> Result<(), CudaError> {
        let require = |what, found: usize, most: usize| {
            let holds = found > 0 && found <= most;
            CudaError::require(NAME, what, found as u64, holds, || format!("1 to {most}"))
        };
        require("layers", self.layers, 1 << 16)?;
        require("rows", self.rows, OFFERED_ROWS as usize)?;
        require("experts of a row", self.used, USED as usize)?;
        require("columns", self.cols, 1 << 20)?;
        require("outputs", self.outputs, 1 << 20)
    }
}
