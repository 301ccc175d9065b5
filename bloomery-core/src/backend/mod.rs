//! What runs a program: the op vocabulary of [`crate::program`] on one kind of device.

mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod ngrams;
mod rope;
mod tables;

pub(crate) use cpu::CpuBackend;
#[cfg(feature = "cuda")]
pub(crate) use cuda::CudaBackend;

use crate::error::EngineError;
use crate::program::Narrow;
use crate::residency::Traffic;
use crate::state::{PageId, StateId};

/// One step: T rows over S sequences. Decode, batched decode, chunks of prompts and draft checks all look like this.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    /// Token of every row.
    pub(crate) tokens: &'a [u32],
    /// Position of every row in its sequence. Rows of a sequence are consecutive and ascending.
    pub(crate) positions: &'a [u32],
    /// Sequence of every row: an index into `pages`.
    pub(crate) sequences: &'a [usize],
    /// What every sequence has before its first row, for models that look at those tokens.
    pub(crate) before: &'a [&'a [u32]],
    /// What every sequence will have after its last row, as far as the next step is known to have it.
    pub(crate) following: &'a [&'a [u32]],
    /// Pages of every sequence, with room for all its rows.
    pub(crate) pages: &'a [&'a [PageId]],
    /// Recurrent state of every sequence before its first row, zeros where there is none; empty for models without recurrent layers.
    pub(crate) states: &'a [Option<StateId>],
    /// Rows after which the state of their sequence is kept, ascending, and where: the last row of every sequence is among them. A
    /// state that is read may be written by its sequence's last row.
    pub(crate) saves: &'a [(usize, StateId)],
    /// Rows that something is wanted of, ascending.
    pub(crate) outputs: &'a [usize],
    /// What is wanted of them.
    pub(crate) want: Readback,
    /// What goes past the program's cut, if not all rows do.
    pub(crate) deep: Option<Deep<'a>>,
    /// Where to report the experts chosen in every routed layer.
    pub(crate) trace: Option<&'a mut RouteTrace>,
    /// Where to report how long the stages of the step took, where a backend can tell.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "cards can"))]
    pub(crate) stages: Option<&'a mut Vec<StageTime>>,
}

impl<'a> Batch<'a> {
    /// Of every row the last position of its sequence.
    pub(crate) fn ends(&self) -> impl Iterator<Item = u32> {
        let runs = self.sequences.chunk_by(|a, b| a == b);
        let mut end = 0;
        runs.flat_map(move |run| {
            end += run.len();
            std::iter::repeat_n(self.positions[end - 1], run.len())
        })
    }

    /// Rows, and outputs among them.
    #[cfg(feature = "cuda")]
    pub(crate) fn shape(&self) -> (usize, usize) {
        (self.tokens.len(), self.outputs.len())
    }

    /// The rows that go past the cut as a step of their own.
    pub(crate) fn past_cut(&self, deep: &Deep<'a>) -> Batch<'a> {
        Batch {
            tokens: &self.tokens[deep.first..],
            positions: &self.positions[deep.first..],
            sequences: &self.sequences[deep.first..],
            before: deep.before,
            // It was looked for with all rows.
            following: &[],
            pages: self.pages,
            states: self.states,
            saves: self.saves,
            outputs: deep.outputs,
            want: self.want,
            deep: None,
            trace: None,
            stages: None,
        }
    }
}

/// The last rows of a step, which run through all of the program; those before them stop at its cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deep<'a> {
    /// The cut.
    pub(crate) narrow: Narrow,
    /// The first of these rows. All outputs are among them.
    pub(crate) first: usize,
    /// What every sequence has before the first of its rows among them.
    pub(crate) before: &'a [&'a [u32]],
    /// The outputs, counted from `first`.
    pub(crate) outputs: &'a [usize],
}

/// What comes back of every output row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readback {
    /// Its logits.
    Logits,
    /// Its normed hidden state.
    Hidden,
    /// So many of its largest logits. A backend may bring back all of them.
    Top(usize),
}

/// What a step brings back, valid until the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer<'a> {
    /// Logits `[outputs][vocab]`, or hidden states.
    Rows(&'a [f32]),
    /// `[outputs][k]`: the largest logits, best first, equal ones by ascending id.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "cards answer so"))]
    Top { k: usize, ids: &'a [u32], logits: &'a [f32] },
}

/// How long a part of a step took.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct StageTime {
    /// What it computes.
    pub name: &'static str,
    /// Kernels of it.
    pub kernels: usize,
    /// Microseconds.
    pub micros: f64,
    /// Bytes of weights and activations that it has to move.
    pub bytes: u64,
}

/// Steps, or guesses of the model's block, of one shape that run as a captured graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct GraphFacts {
    /// Whether the block guesses.
    pub guess: bool,
    /// Rows of the step.
    pub rows: usize,
    /// Rows that something is read of.
    pub outputs: usize,
    /// Kernels, copies and fills.
    pub nodes: usize,
}

/// Experts chosen in a step: for every routed layer, `used` ids per row that went through it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RouteTrace {
    /// `(used, ids)` of every routed layer in order.
    pub(crate) layers: Vec<(usize, Vec<u32>)>,
}

/// A device that holds weights and caches and runs steps. Where copying a page fails, the next step does too.
pub(crate) trait Backend: Send {
    /// Runs a step and returns what is wanted of its output rows.
    fn step(&mut self, batch: Batch<'_>) -> Result<Answer<'_>, EngineError>;

    /// Whether [`guess`](Self::guess) works.
    fn has_block(&self) -> bool {
        false
    }

    /// Has the model's block guess a token for the one row of every sequence, whose pages have room for it and whose states are
    /// what the last step left. `goes_on`: from the pass before, whose first rows these are.
    fn guess(&mut self, batch: Batch<'_>, goes_on: bool) -> Result<Answer<'_>, EngineError> {
        let _ = (batch, goes_on);
        Err(EngineError::NoBlock)
    }

    /// Copies one page of every cache.
    fn copy_page(&mut self, from: PageId, to: PageId);

    /// Appends one page of every cache to `out`.
    fn read_page(&mut self, page: PageId, out: &mut Vec<u8>);

    /// Writes what [`read_page`](Self::read_page) gave. `bytes` has [`page_bytes`](Self::page_bytes).
    fn write_page(&mut self, page: PageId, bytes: &[u8]);

    /// Bytes of one page over all caches.
    fn page_bytes(&self) -> usize;

    /// Bytes of one recurrent state over all layers; 0 where the model has none.
    fn state_bytes(&self) -> usize {
        0
    }

    /// Appends a state to `out`.
    fn read_state(&mut self, state: StateId, out: &mut Vec<u8>) {
        let _ = (state, out);
    }

    /// Writes what [`read_state`](Self::read_state) gave. `bytes` has [`state_bytes`](Self::state_bytes).
    fn write_state(&mut self, state: StateId, bytes: &[u8]) {
        let _ = (state, bytes);
    }

    /// Most pages that [`rebalance`](Self::rebalance) can give; none, if there is nothing to take memory from.
    fn most_pages(&self) -> Option<usize> {
        None
    }

    /// Has caches of `pages` pages from now on, and as many slots for experts as then fit. What is in pages stays; those beyond
    /// the new end must be free. Returns how many there are now: fewer, where the device has less memory than it had.
    fn rebalance(&mut self, pages: usize) -> Result<usize, EngineError> {
        let _ = pages;
        Err(EngineError::NotSplit)
    }

    /// Experts that are on two sides, and what has travelled.
    fn traffic(&self) -> Option<Traffic> {
        None
    }

    /// Steps that run as graphs.
    fn graphs(&self) -> Vec<GraphFacts> {
        Vec::new()
    }
}
