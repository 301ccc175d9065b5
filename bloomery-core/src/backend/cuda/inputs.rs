//! What a step is given, in one copy to fixed addresses:
//!
//! ```text
//! tokens, positions, sequences, outputs   u32[rows] each
//! last positions of sequences             u32[rows], if there is attention to rows that come later
//! from, saves, starts                     u32[rows] each, and one more, if sequences have recurrent states
//! pages                                   u32[sequences][stride]
//! tiles of attention                      u32[tilings][rows][2], if there are many rows
//! ```

use bloomery_kernels::cuda::{CudaError, Span, Stream, Upload};

use super::graphs::GRAPH_ROWS;
use super::sizes::{STATE_PARTS, Sizes};
use super::tilings::Tilings;
use crate::backend::Batch;
use crate::program::AttentionId;

/// The inputs on the card.
#[derive(Debug)]
pub(super) struct Inputs {
    upload: Upload<u32>,
    /// Words of the tokens, and of each of the other three.
    part: usize,
    /// Pages of a sequence, at most.
    stride: usize,
    sequences: usize,
    /// Whether sequences have recurrent states.
    recurrent: bool,
    /// Whether there is attention to rows that come later.
    whole: bool,
    /// Sequences of the step under way.
    running: usize,
    tilings: Tilings,
    /// Words of the tiles of the step under way, for every tiling.
    tiles: Vec<usize>,
    words: Vec<u32>,
}

impl Inputs {
    pub(super) fn new(
        stream: &Stream,
        sizes: &Sizes,
        stride: usize,
        tilings: Tilings,
    ) -> Result<Self, CudaError> {
        let words = sizes.input_words(stride, tilings.count());
        Ok(Self {
            upload: Upload::new(stream, words)?,
            part: sizes.rows.next_multiple_of(4),
            stride,
            sequences: sizes.sequences,
            recurrent: sizes.recurrent,
            whole: sizes.whole,
            running: 0,
            tilings,
            tiles: Vec::new(),
            words: Vec::with_capacity(words),
        })
    }

    /// Queues the copy.
    pub(super) fn send(&mut self, stream: &mut Stream, batch: &Batch<'_>) -> Result<(), CudaError> {
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        let mut end = 0;
        let mut fill = |words: &mut Vec<u32>| {
            end += self.part;
            words.resize(end, 0);
        };
        words.extend_from_slice(batch.tokens);
        fill(&mut words);
        words.extend_from_slice(batch.positions);
        fill(&mut words);
        words.extend(batch.sequences.iter().map(|&sequence| sequence as u32));
        fill(&mut words);
        words.extend(batch.outputs.iter().map(|&row| row as u32));
        fill(&mut words);
        if self.whole {
            words.extend(batch.ends());
            fill(&mut words);
        }
        if self.recurrent {
            let rows = batch.tokens.len();
            words.extend((0..rows).map(|i| batch.states.get(i).copied().flatten().unwrap_or(NONE)));
            fill(&mut words);
            words.extend(saves(batch));
            fill(&mut words);
            words.extend(starts(batch.sequences));
            end = self.pages_start();
            words.resize(end, rows as u32);
        }
        self.running = batch.pages.len();
        for (sequence, pages) in batch.pages.iter().enumerate() {
            words.extend_from_slice(&pages[..pages.len().min(self.stride)]);
            words.resize(end + (sequence + 1) * self.stride, 0);
        }
        let lists = self.tilings.lists(batch.positions, &words[2 * self.part..][..batch.tokens.len()]);
        self.tiles.clear();
        for (tiling, list) in lists.iter().enumerate() {
            words.resize(self.tiles_start() + 2 * self.part * tiling, 0);
            words.extend_from_slice(list);
            self.tiles.push(list.len());
        }
        let sent = self.upload.send(stream, &words);
        self.words = words;
        sent
    }

    pub(super) fn tokens(&self, rows: usize) -> Result<Span<u32>, CudaError> {
        self.span(0, rows)
    }

    pub(super) fn positions(&self, rows: usize) -> Result<Span<u32>, CudaError> {
        self.span(1, rows)
    }

    pub(super) fn sequences(&self, rows: usize) -> Result<Span<u32>, CudaError> {
        self.span(2, rows)
    }

    pub(super) fn outputs(&self, outputs: usize) -> Result<Span<u32>, CudaError> {
        self.span(3, outputs)
    }

    /// Of every row the last position of its sequence.
    pub(super) fn ends(&self, rows: usize) -> Result<Span<u32>, CudaError> {
        debug_assert!(self.whole, "there is attention to later rows");
        self.span(4, rows)
    }

    /// `[sequences][stride]`.
    pub(super) fn pages(&self) -> Result<Span<u32>, CudaError> {
        let start = self.pages_start();
        self.upload.span().slice(start..start + self.sequences * self.stride)
    }

    /// `[tiles][2]`, if the step has many rows.
    pub(super) fn tiles(&self, id: AttentionId) -> Result<Option<Span<u32>>, CudaError> {
        let tiling = self.tilings.of(id);
        let start = self.tiles_start() + 2 * self.part * tiling;
        self.tiles.get(tiling).map(|len| self.upload.span().slice(start..start + len)).transpose()
    }

    fn tiles_start(&self) -> usize {
        self.pages_start() + (self.sequences * self.stride).next_multiple_of(4)
    }

    fn pages_start(&self) -> usize {
        let first = self.first_state() * self.part;
        if self.recurrent { first + STATE_PARTS * self.part + 4 } else { first }
    }

    /// The part before states.
    fn first_state(&self) -> usize {
        4 + usize::from(self.whole)
    }

    /// Where the sequences of a step of `rows` rows start, and which slots get states: `[from, starts, saves]`. A step that may
    /// be a graph has as many sequences as there can be, of which some have no rows.
    pub(super) fn states(&self, rows: usize) -> Result<[Span<u32>; 3], CudaError> {
        let most = self.sequences.min(rows);
        let sequences = if rows <= GRAPH_ROWS { most } else { self.running.clamp(1, most) };
        let first = self.first_state();
        let start = (first + 2) * self.part;
        let starts = self.upload.span().slice(start..start + sequences + 1)?;
        Ok([self.span(first, sequences)?, starts, self.span(first + 1, rows)?])
    }

    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    fn span(&self, part: usize, len: usize) -> Result<Span<u32>, CudaError> {
        self.upload.span().slice(part * self.part..part * self.part + len)
    }
}

/// No state: zeros before a sequence's first row, nothing kept after a row.
const NONE: u32 = u32::MAX;

/// The slot that gets the state after each row.
fn saves(batch: &Batch<'_>) -> Vec<u32> {
    let mut saves = vec![NONE; batch.tokens.len()];
    for &(row, state) in batch.saves {
        saves[row] = state;
    }
    saves
}

/// The first row of each of as many sequences as there are rows; those that there are not start at the end.
fn starts(sequences: &[usize]) -> Vec<u32> {
    debug_assert!(sequences.is_sorted(), "rows come by sequence");
    (0..sequences.len()).map(|s| sequences.partition_point(|&sequence| sequence < s) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::starts;

    #[test]
    fn sequences_start_one_after_the_other() {
        assert_eq!(starts(&[0, 0, 1, 3]), [0, 2, 3, 3]);
        assert_eq!(starts(&[0, 1, 2]), [0, 1, 2]);
        assert_eq!(starts(&[0, 0, 0]), [0, 3, 3]);
    }
}
