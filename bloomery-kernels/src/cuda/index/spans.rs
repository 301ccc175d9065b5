//! Spans of neighbouring blocks to which choices are limited.

use std::sync::Arc;

use super::super::launch::Grid;
use super::super::memory::Allocation;
use super::super::module::{Entry, INDEX};
use super::super::{CudaError, DeviceInfo, Launch, Span};
use super::IndexCache;
use crate::abi::attention::PAGE;
use crate::abi::index::{CHOOSE_BYTES, CHOOSE_THREADS, IndexScoreArgs, IndexSpansArgs};

const NAME: &str = "index_spans";
const MAKE: Entry<IndexSpansArgs> = Entry::new(&INDEX, NAME);
const USE: Entry<IndexSpansArgs> = Entry::new(&INDEX, "index_limit");
/// Threads of a block that uses spans, and scores that one looks at.
const THREADS: u32 = 256;
const EACH: u32 = 16;

/// Spans of rows.
#[derive(Debug, Clone)]
pub struct Spans {
    /// `[rows]` of [`Spans::line`]: whether the row's choices are limited, then a bit for each span.
    pub words: Span<u32>,
    /// Blocks of a span.
    pub size: usize,
}

impl Spans {
    /// Words of a row of up to `stride` pages.
    #[must_use]
    pub fn line(shape: &IndexCache, stride: usize, size: usize) -> usize {
        1 + (stride * PAGE as usize / shape.block).div_ceil(size.max(1)).div_ceil(32)
    }
}

/// What a choice has to do with spans.
#[derive(Debug, Clone)]
pub enum Limits {
    /// Nothing.
    None,
    /// It makes them, of so many: those with the largest scores, of equal ones the first; the newest is one of them. Rows with no more
    /// spans, or blocks than they see, are not limited. Its own choice is not.
    Make(Spans, usize),
    /// It is limited to them.
    Use(Spans),
}

impl Limits {
    fn spans(&self) -> Option<&Spans> {
        match self {
            Self::None => None,
            Self::Make(spans, _) | Self::Use(spans) => Some(spans),
        }
    }

    /// Checks the lengths for `rows` rows.
    pub(super) fn check(&self, shape: &IndexCache, stride: usize, rows: usize) -> Result<(), CudaError> {
        let Some(Spans { words, size }) = self.spans() else { return Ok(()) };
        let require = |what, found: usize| {
            let holds = found > 0 && found < 1 << 20;
            CudaError::require(NAME, what, found as u64, holds, || "1 to 2^20 - 1".to_owned())
        };
        require("blocks of a span", *size)?;
        if let Self::Make(_, keep) = self {
            require("spans of a row", *keep)?;
        }
        let expected = rows * Spans::line(shape, stride, *size);
        CudaError::equal(NAME, "words of spans", words.len() as u64, expected as u64)
    }

    /// The kernels of `rows` rows from `first` on before the choice by these scores, and behind it.
    pub(super) fn launches(
        &self,
        info: &DeviceInfo,
        (shape, first, rows): (&IndexCache, usize, usize),
        scores: &IndexScoreArgs,
        uses: &[Arc<Allocation>],
    ) -> Result<[Option<Launch>; 2], CudaError> {
        let Some(Spans { words, size }) = self.spans() else { return Ok([None, None]) };
        let line = Spans::line(shape, scores.cache.stride as usize, *size);
        let words = words.slice(first * line..(first + rows) * line)?;
        let mut args = IndexSpansArgs {
            cache: scores.cache,
            scores: scores.scores,
            spans: words.address(),
            size: *size as u32,
            keep: scores.keep,
            most: scores.most,
            line: line as u32,
            ..IndexSpansArgs::default()
        };
        let mut uses = uses.to_vec();
        uses.push(words.memory().clone());
        let (rows, bytes) = (rows as u32, 4 * words.len() as u64);
        Ok(match self {
            Self::Make(_, keep) => {
                args.spans_kept = *keep as u32;
                let grid = Grid { blocks: rows, threads: CHOOSE_THREADS, shared_bytes: CHOOSE_BYTES };
                [None, Some(Launch::new(MAKE, grid, args, bytes, uses))]
            }
            _ => {
                let most = (4 * info.processors).div_ceil(rows).max(1);
                args.slices = scores.most.div_ceil(THREADS * EACH).clamp(1, most);
                let grid = Grid { blocks: rows * args.slices, threads: THREADS, shared_bytes: 0 };
                [Some(Launch::new(USE, grid, args, bytes, uses)), None]
            }
        })
    }
}
