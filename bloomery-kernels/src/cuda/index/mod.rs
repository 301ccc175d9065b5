//! An index over blocks of positions on a card: its pages, keys into them, and the choice from it.

mod append;
mod select;
mod spans;

use std::sync::Arc;

pub use append::{IndexAppend, IndexPooling};
pub use select::{Chosen, Select};
pub use spans::{Limits, Spans};

use super::memory::Allocation;
use super::{CudaError, Span};
use crate::abi::attention::PAGE;
use crate::abi::index::{Indexed, WIDEST_INDEX};

const NAME: &str = "an index";

/// Shape of one layer's index; a page is that of the CPU's `IndexShape`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexCache {
    width: usize,
    /// Whether keys of positions are kept.
    raw: bool,
    gates: bool,
    block: usize,
}

impl IndexCache {
    /// Keys of `width` values, with as many gates or without, and blocks of `block` positions.
    ///
    /// # Errors
    /// [`CudaError::Contract`] unless the width is a multiple of 16 up to 256 and the block 4, 8, 16, 32 or 64.
    pub fn new(width: usize, gates: bool, block: usize) -> Result<Self, CudaError> {
        let holds = width > 0 && width.is_multiple_of(16) && width <= WIDEST_INDEX as usize;
        let rule = || format!("a multiple of 16 up to {WIDEST_INDEX}");
        CudaError::require(NAME, "the width of a key", width as u64, holds, rule)?;
        let holds = block >= 4 && (PAGE as usize).is_multiple_of(block);
        let rule = || format!("a divisor of {PAGE}, at least 4");
        CudaError::require(NAME, "positions of a block", block as u64, holds, rule)?;
        Ok(Self { width, raw: true, gates, block })
    }

    /// Of blocks whose keys come as they are: those of positions are not kept.
    ///
    /// # Errors
    /// [`CudaError::Contract`] unless the width is a multiple of 16 up to 256 and the block 1, 2, 4, 8, 16, 32 or 64.
    pub fn of_blocks(width: usize, block: usize) -> Result<Self, CudaError> {
        let holds = block > 0 && (PAGE as usize).is_multiple_of(block);
        let rule = || format!("a divisor of {PAGE}");
        CudaError::require(NAME, "positions of a block", block as u64, holds, rule)?;
        Ok(Self { raw: false, block, ..Self::new(width, false, PAGE as usize)? })
    }

    /// Values of a key.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Positions of a block.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// Values of a page before the keys of blocks.
    fn raw_len(&self) -> usize {
        PAGE as usize * self.width * (usize::from(self.raw) + usize::from(self.gates))
    }

    /// Values of a page.
    #[must_use]
    pub fn page_len(&self) -> usize {
        self.raw_len() + PAGE as usize / self.block * self.width
    }
}

/// One layer's index and where the rows of a step are in it. Pages have the numbers that they have in the layer's cache.
#[derive(Debug, Clone)]
pub struct IndexRows {
    /// Shape.
    pub shape: IndexCache,
    /// `[pages]` of [`IndexCache::page_len`].
    pub pages: Span<f32>,
    /// `[sequences][stride]`: pages in order of position. Appending to a page that the index does not have does nothing.
    pub table: Span<u32>,
    /// Entries of a sequence.
    pub stride: usize,
    /// `[rows]`: rows of a sequence follow each other, in ascending order.
    pub positions: Span<u32>,
    /// `[rows]`: lines of `table`.
    pub sequences: Span<u32>,
}

impl IndexRows {
    /// Checks the lengths for `rows` rows of the kernel `name`.
    fn arguments(&self, name: &'static str, rows: usize) -> Result<Indexed, CudaError> {
        let Self { shape, pages, table, stride, positions, sequences } = self;
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(name, what, found as u64, expected as u64);
        let most = 1 << 24;
        CudaError::require(name, "rows", rows as u64, (1..=most).contains(&rows), || format!("1 to {most}"))?;
        equal("positions", positions.len(), rows)?;
        equal("sequences", sequences.len(), rows)?;
        let count = pages.len() / shape.page_len();
        // Places are numbers of 32 bits.
        let holds = count > 0 && count < 1 << 26;
        CudaError::require(name, "pages", count as u64, holds, || "1 to 2^26 - 1".to_owned())?;
        equal("values of the pages", pages.len(), count * shape.page_len())?;
        let holds = pages.len() < 1 << 34;
        CudaError::require(name, "values of the pages", pages.len() as u64, holds, || {
            "below 2^34".to_owned()
        })?;
        let holds = *stride > 0 && *stride <= 1 << 24 && table.len() >= *stride;
        let rule = || format!("1 to 2^24 and at most {}", table.len());
        CudaError::require(name, "entries of a sequence", *stride as u64, holds, rule)?;
        aligned(name, pages.address())?;
        Ok(Indexed {
            values: pages.address(),
            table: table.address(),
            positions: positions.address(),
            sequences: sequences.address(),
            tables: (table.len() / stride) as u32,
            stride: *stride as u32,
            pages: count as u32,
            rows: rows as u32,
            width: shape.width as u32,
            shift: shape.block.ilog2(),
            raw_len: shape.raw_len() as u32,
            page_len: shape.page_len() as u32,
        })
    }

    /// All the memory.
    fn uses(&self) -> Vec<Arc<Allocation>> {
        let words = [&self.table, &self.positions, &self.sequences].map(|span| span.memory().clone());
        words.into_iter().chain([self.pages.memory().clone()]).collect()
    }
}

fn aligned(name: &'static str, addresses: u64) -> Result<(), CudaError> {
    let rule = || "a multiple of 16".to_owned();
    CudaError::require(name, "an address", addresses, addresses.is_multiple_of(16), rule)
}
