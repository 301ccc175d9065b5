//! What a step is given, in one copy to fixed addresses:
//!
//! ```text
//! tokens, positions, sequences, outputs   u32[rows] each
//! pages                                   u32[sequences][stride]
//! tiles of attention                      u32[tilings][rows][2], if there are many rows
//! ```

use bloomery_kernels::cuda::{CudaError, Span, Stream, Upload};

use super::sizes::Sizes;
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

    /// `[sequences][stride]`.
    pub(super) fn pages(&self) -> Result<Span<u32>, CudaError> {
        let start = 4 * self.part;
        self.upload.span().slice(start..start + self.sequences * self.stride)
    }

    /// `[tiles][2]`, if the step has many rows.
    pub(super) fn tiles(&self, id: AttentionId) -> Result<Option<Span<u32>>, CudaError> {
        let tiling = self.tilings.of(id);
        let start = self.tiles_start() + 2 * self.part * tiling;
        self.tiles.get(tiling).map(|len| self.upload.span().slice(start..start + len)).transpose()
    }

    fn tiles_start(&self) -> usize {
        4 * self.part + (self.sequences * self.stride).next_multiple_of(4)
    }

    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    fn span(&self, part: usize, len: usize) -> Result<Span<u32>, CudaError> {
        self.upload.span().slice(part * self.part..part * self.part + len)
    }
}
