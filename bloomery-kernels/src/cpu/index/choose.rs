//! Which positions rows see, by the scores of an index's blocks.

use crate::cpu::kv::PAGE;
use crate::cpu::shared::Shared;
use crate::cpu::{KernelError, RowView};

/// Which positions rows see: bits as [`RowView::mask`] takes them.
#[derive(Debug, Default)]
pub struct Masks {
    pub(super) words: Vec<u64>,
    /// First word and number of words of every row; none where it sees everything.
    pub(super) rows: Vec<(usize, usize)>,
}

impl Masks {
    /// Of the last positions of all whole groups.
    pub(in crate::cpu) fn of_ends(&mut self, positions: usize, rows: &[RowView<'_>]) {
        self.words.clear();
        self.rows.clear();
        for row in rows {
            let (len, first) = (row.len as usize, self.words.len());
            self.words.resize(first + len.div_ceil(PAGE), 0);
            for end in (positions..=len).step_by(positions.max(1)) {
                self.words[first + (end - 1) / PAGE] |= 1 << ((end - 1) % PAGE);
            }
            self.rows.push((first, len.div_ceil(PAGE)));
        }
    }

    /// The bits of a row; none where it sees everything.
    #[must_use]
    pub fn row(&self, row: usize) -> Option<&[u64]> {
        let &(first, len) = self.rows.get(row)?;
        (len > 0).then(|| &self.words[first..first + len])
    }
}

/// What rows see of chosen blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// All their positions, and those behind the last whole block.
    Positions,
    /// Their last positions, which stand for them.
    Ends,
}

/// Neighbouring blocks of an index to which other choices are limited.
#[derive(Debug)]
pub enum Candidates<'a> {
    /// There are none.
    None,
    /// The spans with the largest scores, of equal ones the first; the newest is one of them.
    Make {
        /// A bit for each span.
        spans: &'a mut Masks,
        /// Blocks of a span.
        size: usize,
        /// Spans of a row.
        keep: usize,
    },
    /// Only blocks of these spans are chosen.
    Use {
        /// A bit for each span.
        spans: &'a Masks,
        /// Blocks of a span.
        size: usize,
    },
}

/// The bits of one row.
pub(super) struct Choice<'a> {
    pub(super) block: usize,
    /// Positions that the row sees.
    pub(super) len: usize,
    pub(super) seen: Seen,
    pub(super) words: &'a mut [u64],
}

impl Choice<'_> {
    /// Sets those of the blocks with the largest scores, of fewer than there are.
    pub(super) fn best(&mut self, scores: &[f32], keep: usize) {
        largest(scores, keep).iter().for_each(|&chosen| self.block(chosen));
        self.rest(scores.len());
    }

    pub(super) fn all(&mut self) {
        let blocks = self.len / self.block;
        (0..blocks).for_each(|chosen| self.block(chosen));
        self.rest(blocks);
    }

    fn block(&mut self, chosen: usize) {
        let at = chosen * self.block;
        let bits = match self.seen {
            Seen::Positions => u64::MAX >> (64 - self.block),
            Seen::Ends => 1 << (self.block - 1),
        };
        self.words[at / PAGE] |= bits << (at % PAGE);
    }

    /// Those behind the last whole block.
    fn rest(&mut self, blocks: usize) {
        if self.seen == Seen::Positions {
            for at in blocks * self.block..self.len {
                self.words[at / PAGE] |= 1 << (at % PAGE);
            }
        }
    }
}

/// Numbers of the `keep` largest scores in any order, of equal ones the first.
fn largest(scores: &[f32], keep: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let by = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
    if keep > 0 && keep < order.len() {
        order.select_nth_unstable_by(keep - 1, by);
    }
    order.truncate(keep);
    order
}

/// Candidates of all rows, to be made or used.
pub(super) enum Limits<'a> {
    None,
    Make { words: Shared<'a, u64>, parts: &'a [(usize, usize)], size: usize, keep: usize },
    Use { spans: &'a Masks, size: usize },
}

impl<'a> Limits<'a> {
    pub(super) fn new(
        candidates: Candidates<'a>,
        rows: &[RowView<'_>],
        block: usize,
    ) -> Result<Self, KernelError> {
        let positive = |size: usize| {
            let rule = "at least 1";
            let error = KernelError::Shape { what: "blocks of a span of candidates", value: size, rule };
            if size == 0 { Err(error) } else { Ok(()) }
        };
        match candidates {
            Candidates::None => Ok(Self::None),
            Candidates::Use { spans, size } => {
                positive(size)?;
                KernelError::length("rows of candidates", rows.len(), spans.rows.len())?;
                Ok(Self::Use { spans, size })
            }
            Candidates::Make { spans, size, keep } => {
                positive(size)?;
                let Masks { words, rows: parts } = spans;
                parts.clear();
                let mut total = 0;
                for row in rows {
                    let spans = (row.len as usize / block).div_ceil(size);
                    let len = if spans > keep { spans.div_ceil(64) } else { 0 };
                    parts.push((total, len));
                    total += len;
                }
                words.clear();
                words.resize(total, 0);
                Ok(Self::Make { words: Shared::new(words), parts, size, keep })
            }
        }
    }

    /// Of a row and its scores, those of blocks that may not be chosen become minus infinity.
    pub(super) fn apply(&self, row: usize, scores: &mut [f32]) {
        match self {
            Self::None => {}
            Self::Make { words, parts, size, keep } => {
                let (first, len) = parts[row];
                if len == 0 {
                    return;
                }
                let most = |span: &[f32]| span.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let mut best: Vec<f32> = scores.chunks(*size).map(most).collect();
                best.last_mut().into_iter().for_each(|newest| *newest = f32::INFINITY);
                // SAFETY: rows have different words.
                let words = unsafe { words.part(first..first + len) };
                largest(&best, *keep).iter().for_each(|span| words[span / 64] |= 1 << (span % 64));
            }
            Self::Use { spans, size } => {
                let Some(bits) = spans.row(row) else { return };
                for (span, scores) in scores.chunks_mut(*size).enumerate() {
                    if bits.get(span / 64).is_none_or(|word| word >> (span % 64) & 1 == 0) {
                        scores.fill(f32::NEG_INFINITY);
                    }
                }
            }
        }
    }
}
