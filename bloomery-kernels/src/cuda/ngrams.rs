//! What hashed n-grams add to residual streams.

use super::launch::Grid;
use super::module::{Entry, NGRAMS};
use super::streams::threads_of_eights;
use super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::ngrams::{NgramArgs, SHARE_BYTES};
use crate::abi::streams::STREAMS;

const SHARE: Entry<NgramArgs> = Entry::new(&NGRAMS, "ngram_share");
const ADD: Entry<NgramArgs> = Entry::new(&NGRAMS, "ngram_add");
const MIX: Entry<NgramArgs> = Entry::new(&NGRAMS, "ngram_mix");
const SAVE: Entry<NgramArgs> = Entry::new(&NGRAMS, "ngram_save");

const NAME: &str = "n-grams";
const THREADS: usize = 256;

/// Adds to streams what the n-grams of their rows give, where no convolution follows.
#[derive(Debug, Clone)]
pub struct NgramAdd {
    /// Streams of a row, at most 8.
    pub streams: usize,
    /// Values of a stream: a multiple of 8.
    pub width: usize,
    /// `[rows][streams][width]`.
    pub key: Span<f32>,
    /// `[rows][width]`.
    pub value: Span<f32>,
    /// `[rows][streams][width]`.
    pub x: Span<f32>,
    /// `[streams][width]` and the epsilon, of keys and of the streams.
    pub norms: [(Span<f32>, f32); 2],
}

impl NgramAdd {
    /// The kernel: a block for every stream of every row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when numbers, lengths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { streams, width, key, value, x, norms } = self;
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(NAME, what, found as u64, expected as u64);
        let rows = rows(*streams, *width, x.len())?;
        let all = streams * width;
        equal("keys", key.len(), rows * all)?;
        equal("values", value.len(), rows * width)?;
        for (gain, _) in norms {
            equal("values of a gain", gain.len(), all)?;
        }
        let spans: Vec<&Span<f32>> =
            [key, value, x].into_iter().chain(norms.iter().map(|(gain, _)| gain)).collect();
        let addresses = spans.iter().fold(0, |all, span| all | span.address());
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(NAME, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let args = NgramArgs {
            key: key.address(),
            value: value.address(),
            x: x.address(),
            gain: [norms[0].0.address(), norms[1].0.address(), 0],
            eps: [norms[0].1, norms[1].1, 0.0],
            width: *width as u32,
            streams: *streams as u32,
            rows: rows as u32,
            ..NgramArgs::default()
        };
        let blocks = (rows * streams) as u32;
        let grid = Grid { blocks, threads: threads_of_eights(*width), shared_bytes: SHARE_BYTES };
        let uses = spans.into_iter().map(|span| span.memory().clone()).collect();
        Ok(Launch::new(ADD, grid, args, 4 * (3 * x.len() + value.len()) as u64, uses))
    }
}

/// Rows of `len` values of streams.
fn rows(streams: usize, width: usize, len: usize) -> Result<usize, CudaError> {
    let most = STREAMS as usize;
    let holds = (1..=most).contains(&streams);
    CudaError::require(NAME, "streams", streams as u64, holds, || format!("1 to {most}"))?;
    let whole = width > 0 && width.is_multiple_of(8) && width <= 1 << 20;
    let rule = || "a multiple of 8, at most 2^20".to_owned();
    CudaError::require(NAME, "columns", width as u64, whole, rule)?;
    let (all, most) = (streams * width, (1 << 30) / (streams * width));
    let rows = len / all;
    let holds = (1..=most).contains(&rows);
    CudaError::require(NAME, "rows", rows as u64, holds, || format!("1 to {most}"))?;
    CudaError::equal(NAME, "values of the streams", len as u64, (rows * all) as u64)?;
    Ok(rows)
}

/// Adds to streams what the n-grams of their rows give, by the states of their sequences, which it reads and writes.
#[derive(Debug, Clone)]
pub struct NgramMix {
    /// Streams of a row, at most 8.
    pub streams: usize,
    /// Values of a stream: a multiple of 8.
    pub width: usize,
    /// Weights of a channel of the convolution.
    pub taps: usize,
    /// Rows from one of them to the next.
    pub dilation: usize,
    /// `[rows][streams][width]`.
    pub key: Span<f32>,
    /// `[rows][width]`.
    pub value: Span<f32>,
    /// `[rows][streams][width]`.
    pub x: Span<f32>,
    /// `[streams][width]` and the epsilon, of keys, of the streams, of weighted values.
    pub norms: [(Span<f32>, f32); 3],
    /// `[taps][streams][width]`, the row's own last.
    pub conv: Span<f32>,
    /// Room for [`scratch_len`](Self::scratch_len) values.
    pub scratch: Span<f32>,
    /// `[slots][dilation (taps - 1)][streams][width]`.
    pub states: Span<f32>,
    /// `[rows]`: the sequence of every row.
    pub sequence: Span<u32>,
    /// `[sequences]`: the slot that a sequence starts from. A number that is no slot: zeros.
    pub from: Span<u32>,
    /// `[sequences + 1]`, ascending: the first row of every sequence, then the number of rows. A sequence may have none.
    pub starts: Span<u32>,
    /// `[rows]`: the slot that gets the state after a row. A number that is no slot: none does. Of the slots that are saved, only that of
    /// a sequence's last row may be one that a sequence starts from, and only its own.
    pub saves: Span<u32>,
}

impl NgramMix {
    /// Values of scratch memory for `rows` rows: their normed values, then their shares.
    #[must_use]
    pub const fn scratch_len(rows: usize, streams: usize, width: usize) -> usize {
        rows * streams * (width + 1)
    }

    /// The kernels, in order.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when numbers, lengths or alignments do not fit.
    pub fn launches(&self, _info: &DeviceInfo) -> Result<Vec<Launch>, CudaError> {
        let args = self.arguments()?;
        let floats = [&self.key, &self.value, &self.x, &self.conv, &self.scratch, &self.states];
        let words = [&self.sequence, &self.from, &self.starts, &self.saves];
        let uses: Vec<_> = floats
            .into_iter()
            .chain(self.norms.iter().map(|(gain, _)| gain))
            .map(|span| span.memory().clone())
            .chain(words.into_iter().map(|span| span.memory().clone()))
            .collect();
        let (rows, all) = (args.rows as usize, self.streams * self.width);
        let bytes = |rows: usize| 4 * (rows * all) as u64;
        let grid = Grid {
            blocks: args.rows * args.streams,
            threads: threads_of_eights(self.width),
            shared_bytes: SHARE_BYTES,
        };
        let share = Launch::new(SHARE, grid, args, bytes(3 * rows), uses.clone());
        let of = |blocks: usize| Grid { blocks: blocks as u32, threads: THREADS as u32, shared_bytes: 0 };
        let grid = of((rows * all / 4).div_ceil(THREADS));
        let mix = Launch::new(MIX, grid, args, bytes((2 + self.taps) * rows), uses.clone());
        let grid = of(rows * (all / 4).div_ceil(THREADS));
        let kept = args.kept() as usize * self.from.len();
        Ok(vec![share, mix, Launch::new(SAVE, grid, args, bytes(2 * kept), uses)])
    }

    fn arguments(&self) -> Result<NgramArgs, CudaError> {
        let Self { streams, width, taps, dilation, key, value, x, norms, conv, scratch, .. } = self;
        let Self { states, sequence, from, starts, saves, .. } = self;
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(NAME, what, found as u64, expected as u64);
        let require = |what, found: usize, holds, rule: &dyn Fn() -> String| {
            CudaError::require(NAME, what, found as u64, holds, rule)
        };
        let most = STREAMS as usize;
        require("streams", *streams, (1..=most).contains(streams), &|| format!("1 to {most}"))?;
        let whole = *width > 0 && width.is_multiple_of(8) && *width <= 1 << 20;
        require("columns", *width, whole, &|| "a multiple of 8, at most 2^20".to_owned())?;
        require("taps", *taps, (2..=64).contains(taps), &|| "2 to 64".to_owned())?;
        require("rows between taps", *dilation, (1..=64).contains(dilation), &|| "1 to 64".to_owned())?;
        let (rows, sequences, all) = (saves.len(), from.len(), streams * width);
        let most = (1 << 30) / all;
        require("rows", rows, rows > 0 && rows <= most, &|| format!("1 to {most}"))?;
        require("sequences", sequences, sequences > 0 && sequences <= rows, &|| format!("1 to {rows}"))?;
        equal("starts of sequences", starts.len(), sequences + 1)?;
        equal("sequences of rows", sequence.len(), rows)?;
        equal("values of the streams", x.len(), rows * all)?;
        equal("keys", key.len(), rows * all)?;
        equal("values", value.len(), rows * width)?;
        equal("weights of the convolution", conv.len(), taps * all)?;
        for (gain, _) in norms {
            equal("values of a gain", gain.len(), all)?;
        }
        let room = Self::scratch_len(rows, *streams, *width);
        require("scratch values", scratch.len(), scratch.len() >= room, &|| format!("at least {room}"))?;
        let len = dilation * (taps - 1) * all;
        let slots = states.len() / len;
        equal("values of the states", states.len(), slots * len)?;
        require("slots", slots, slots > 0 && slots < u32::MAX as usize, &|| "1 to 2^32 - 2".to_owned())?;
        let spans =
            [key, value, x, conv, scratch, states].into_iter().chain(norms.iter().map(|(gain, _)| gain));
        let addresses = spans.fold(0, |all, span| all | span.address());
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(NAME, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        Ok(NgramArgs {
            key: key.address(),
            value: value.address(),
            x: x.address(),
            gain: [0, 1, 2].map(|i| norms[i].0.address()),
            conv: conv.address(),
            shares: scratch.address() + 4 * (rows * all) as u64,
            normed: scratch.address(),
            states: states.address(),
            sequence: sequence.address(),
            from: from.address(),
            starts: starts.address(),
            saves: saves.address(),
            eps: [0, 1, 2].map(|i| norms[i].1),
            width: *width as u32,
            streams: *streams as u32,
            taps: *taps as u32,
            dilation: *dilation as u32,
            rows: rows as u32,
            sequences: sequences as u32,
            slots: slots as u32,
        })
    }
}
