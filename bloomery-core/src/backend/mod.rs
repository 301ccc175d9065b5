//! What runs a program: the op vocabulary of [`crate::program`] on one kind of device.

mod cache;
mod cpu;

pub(crate) use cpu::CpuBackend;

use crate::error::EngineError;
use crate::state::PageId;

/// One step: T rows over S sequences. Decode, batched decode, chunks of prompts and draft checks all look like this.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    /// Token of every row.
    pub(crate) tokens: &'a [u32],
    /// Position of every row in its sequence. Rows of a sequence are consecutive and ascending.
    pub(crate) positions: &'a [u32],
    /// Sequence of every row: an index into `pages`.
    pub(crate) sequences: &'a [usize],
    /// Pages of every sequence, with room for all its rows.
    pub(crate) pages: &'a [&'a [PageId]],
    /// Rows whose logits are wanted, ascending.
    pub(crate) outputs: &'a [usize],
    /// The normed hidden states of the outputs are wanted in place of their logits.
    pub(crate) hidden: bool,
    /// Where to report the experts chosen in every routed layer.
    pub(crate) trace: Option<&'a mut RouteTrace>,
}

/// Experts chosen in a step: for every routed layer, `used` ids per row that went through it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RouteTrace {
    /// `(used, ids)` of every routed layer in order.
    pub(crate) layers: Vec<(usize, Vec<u32>)>,
}

/// A device that holds weights and caches and runs steps.
pub(crate) trait Backend: Send {
    /// Runs a step and returns the logits of its output rows, `[outputs][vocab]`, valid until the next step.
    fn step(&mut self, batch: Batch<'_>) -> Result<&[f32], EngineError>;

    /// Copies one page of every cache.
    fn copy_page(&mut self, from: PageId, to: PageId);

    /// Appends one page of every cache to `out`.
    fn read_page(&self, page: PageId, out: &mut Vec<u8>);

    /// Writes what [`read_page`](Self::read_page) gave. `bytes` has [`page_bytes`](Self::page_bytes).
    fn write_page(&mut self, page: PageId, bytes: &[u8]);

    /// Bytes of one page over all caches.
    fn page_bytes(&self) -> usize;
}
