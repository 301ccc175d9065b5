//! The largest logits of every output.

use std::ops::Range;

use bloomery_kernels::cuda::{Candidates, CudaError, Launch};

use crate::backend::cuda::frame::Frame;

/// Where they lie: ids and logits `[rows][k]`, then the logarithm of the sum of exponentials of each row.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend::cuda) struct Layout {
    pub(in crate::backend::cuda) rows: usize,
    pub(in crate::backend::cuda) k: usize,
}

impl Layout {
    fn part(self) -> usize {
        (self.rows * self.k).next_multiple_of(4)
    }

    pub(in crate::backend::cuda) fn ids(self) -> Range<usize> {
        0..self.rows * self.k
    }

    pub(in crate::backend::cuda) fn logits(self) -> Range<usize> {
        self.part()..self.part() + self.rows * self.k
    }

    pub(in crate::backend::cuda) fn sums(self) -> Range<usize> {
        2 * self.part()..2 * self.part() + self.rows
    }

    pub(in crate::backend::cuda) fn words(self) -> usize {
        2 * self.part() + self.rows
    }
}

/// Words that the selection works with.
pub(in crate::backend::cuda) fn scratch_len(rows: usize, vocab: usize) -> usize {
    Candidates::scratch_len(rows, vocab)
}

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    layout: Layout,
) -> Result<[Launch; 2], CudaError> {
    let logits = frame.model.program.logits;
    let words = &frame.memory.candidates;
    let candidates = Candidates {
        logits: frame.part(logits, 0, layout.rows)?,
        vocab: logits.cols,
        k: layout.k,
        ids: words.slice(layout.ids())?,
        logits_out: words.slice(layout.logits())?.cast(),
        lse: words.slice(layout.sums())?.cast(),
        scratch: frame.memory.select.span(),
    };
    candidates.launches(frame.info)
}
