//! The largest logits of rows.

use super::launch::Grid;
use super::module::{Entry, SAMPLE};
use super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::candidates::{BATCH, CandidatesArgs, GROUPS, MERGE_BYTES, MOST, PIECE};

const FIND: Entry<CandidatesArgs> = Entry::new(&SAMPLE, "candidates_find");
const MERGE: Entry<CandidatesArgs> = Entry::new(&SAMPLE, "candidates_merge");

const NAME: &str = "candidates";
const FIND_THREADS: u32 = 256;
const MERGE_THREADS: u32 = 1024;

/// The `k` largest logits of every row, descending, of equal ones the lower id first, and the logarithm of the sum of the
/// powers of e of all of them (no number, or infinite, where there is no sum).
///
/// A NaN is above every number, so that a row with one has it for its first candidate, as one with an infinity has that:
/// nothing can be drawn from either. A row's bits depend on no other row.
#[derive(Debug, Clone)]
pub struct Candidates {
    /// `[rows][vocab]`.
    pub logits: Span<f32>,
    /// Logits of a row.
    pub vocab: usize,
    /// Candidates of a row: 1 to 128, and no more than there are logits.
    pub k: usize,
    /// `[rows][k]`.
    pub ids: Span<u32>,
    /// `[rows][k]`.
    pub logits_out: Span<f32>,
    /// `[rows]`.
    pub lse: Span<f32>,
    /// [`Candidates::scratch_len`] values or more.
    pub scratch: Span<u32>,
}

/// How a row is cut: into batches, and into no more groups than a block can hold.
fn cut(vocab: u32) -> CandidatesArgs {
    let mut shift = 0;
    while vocab.div_ceil(PIECE << shift) > GROUPS {
        shift += 1;
    }
    let (groups, batches) = (vocab.div_ceil(PIECE << shift), vocab.div_ceil(BATCH));
    CandidatesArgs { vocab, groups, batches, shift, ..CandidatesArgs::default() }
}

impl Candidates {
    /// Values of scratch memory.
    #[must_use]
    pub fn scratch_len(rows: usize, vocab: usize) -> usize {
        rows * cut(u32::try_from(vocab).unwrap_or(u32::MAX)).words() as usize
    }

    /// The kernels, in order.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when numbers, lengths or alignments do not fit.
    pub fn launches(&self, _info: &DeviceInfo) -> Result<[Launch; 2], CudaError> {
        let Self { logits, vocab, k, ids, logits_out, lse, scratch } = self;
        let (vocab, k) = (*vocab, *k);
        let require = |what, found: usize, holds, rule: &dyn Fn() -> String| {
            CudaError::require(NAME, what, found as u64, holds, rule)
        };
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(NAME, what, found as u64, expected as u64);
        let most = 1 << 24;
        require("logits of a row", vocab, vocab > 0 && vocab <= most, &|| format!("1 to {most}"))?;
        let most = vocab.min(MOST as usize);
        require("candidates of a row", k, k > 0 && k <= most, &|| format!("1 to {most}"))?;
        let rows = logits.len() / vocab;
        equal("logits", logits.len(), rows * vocab)?;
        let most = 1 << 12;
        require("rows", rows, rows > 0 && rows <= most, &|| format!("1 to {most}"))?;
        equal("ids", ids.len(), rows * k)?;
        equal("logits of candidates", logits_out.len(), rows * k)?;
        equal("sums", lse.len(), rows)?;
        let room = Self::scratch_len(rows, vocab);
        require("scratch values", scratch.len(), scratch.len() >= room, &|| format!("at least {room}"))?;
        let addresses = logits.address() | scratch.address();
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(NAME, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let args = CandidatesArgs {
            logits: logits.address(),
            scratch: scratch.address(),
            ids: ids.address(),
            out: logits_out.address(),
            lse: lse.address(),
            k: k as u32,
            rows: rows as u32,
            ..cut(vocab as u32)
        };
        let uses: Vec<_> = [logits, logits_out, lse]
            .map(|span| span.memory().clone())
            .into_iter()
            .chain([ids, scratch].map(|span| span.memory().clone()))
            .collect();
        let blocks = (rows as u32 * args.groups.min(args.batches)).div_ceil(FIND_THREADS / 32);
        let grid = Grid { blocks, threads: FIND_THREADS, shared_bytes: 0 };
        let find = Launch::new(FIND, grid, args, 4 * logits.len() as u64, uses.clone());
        let grid = Grid { blocks: rows as u32, threads: MERGE_THREADS, shared_bytes: MERGE_BYTES };
        let merge = Launch::new(MERGE, grid, args, 4 * room as u64, uses);
        Ok([find, merge])
    }
}
