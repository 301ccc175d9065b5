//! What hashed n-grams add to residual streams (Qwen3.8's per-layer embedding): each stream weighs the n-grams' value by how
//! well their key fits it, and a causal convolution over the weighted values follows.
//!
//! ```text
//! d[s]  = norm(key)[s] . norm(x)[s] / sqrt(width);   w[s] = sigmoid(sign(d) sqrt(max(|d|, 1e-6)))
//! y[s]  = w[s] value;                                n    = norm(y), stream by stream
//! x[s] += y[s] + silu(sum over taps ascending of conv[tap] n[row - dilation (taps - 1 - tap)])
//! ```
//!
//! A sequence keeps the last `dilation (taps - 1)` rows of `n`, oldest first. Engrams (DeepSeek-V4.1, 2026) are the same without
//! the convolution.

use super::delta::DeltaRun;
use super::math::sigmoid_one;
use super::shared::Shared;
use super::streams::{dot, squares, streams_fit};
use super::{Cpu, KernelError, Norm, split};

/// Values one task is worth.
const VALUES_PER_TASK: usize = 8192;
/// Where a root begins to be steep.
const LEAST: f32 = 1e-6;

/// The weights of a layer's n-grams besides its projections.
#[derive(Debug, Clone, Copy)]
pub struct NgramWeights<'a> {
    /// Residual streams.
    pub streams: usize,
    /// Of keys, stream by stream: `[streams][width]`.
    pub key_norm: Norm<'a>,
    /// Of the streams.
    pub query_norm: Norm<'a>,
    /// What follows, if anything does.
    pub conv: Option<NgramConv<'a>>,
}

/// The convolution over weighted values.
#[derive(Debug, Clone, Copy)]
pub struct NgramConv<'a> {
    /// Of the weighted values.
    pub norm: Norm<'a>,
    /// `[taps][streams][width]`, the last tap for the row itself.
    pub taps: &'a [f32],
    /// Rows between taps.
    pub dilation: usize,
}

impl NgramWeights<'_> {
    /// Values of all streams of a row.
    fn row(&self) -> usize {
        self.key_norm.gain.len()
    }

    fn width(&self) -> usize {
        self.row() / self.streams
    }

    /// Rows that a sequence keeps.
    fn kept(&self) -> usize {
        self.conv.map_or(0, |conv| conv.dilation * (conv.taps.len() / self.row() - 1))
    }

    fn check(&self) -> Result<(), KernelError> {
        streams_fit(self.streams)?;
        let row = self.row();
        let convolves = self.conv.is_none_or(|conv| conv.taps.len() >= row && conv.dilation > 0);
        if row == 0 || !row.is_multiple_of(self.streams) || !convolves {
            let rule = "a width for each stream, a tap, a distance between taps";
            return Err(KernelError::Shape { what: "streams beside n-grams", value: row, rule });
        }
        KernelError::length("gain of queries of n-grams", row, self.query_norm.gain.len())?;
        let Some(conv) = self.conv else { return Ok(()) };
        KernelError::length("convolution of n-grams", conv.taps.len() / row * row, conv.taps.len())?;
        KernelError::length("gain of values of n-grams", row, conv.norm.gain.len())
    }

    /// How much of its value a row's n-grams give to a stream.
    fn share(&self, key: &[f32], x: &[f32], stream: usize) -> f32 {
        let width = self.width();
        let normed = |part: &[f32], norm: Norm<'_>| -> Vec<f32> {
            let size = 1.0 / (squares(part) / width as f32 + norm.eps).sqrt();
            let gain = &norm.gain[stream * width..][..width];
            part.iter().zip(gain).map(|(x, gain)| x * size * gain).collect()
        };
        let fit = dot(&normed(key, self.key_norm), &normed(x, self.query_norm)) / (width as f32).sqrt();
        let root = fit.abs().max(LEAST).sqrt();
        // At 0 there is no sign.
        sigmoid_one(if fit == 0.0 { 0.0 } else { root.copysign(fit) })
    }
}

/// What the projections made of a step's n-grams.
#[derive(Debug, Clone, Copy)]
pub struct NgramInput<'a> {
    /// `[rows][streams][width]`.
    pub key: &'a [f32],
    /// `[rows][width]`.
    pub value: &'a [f32],
}

/// Memory that is reused from call to call.
#[derive(Debug, Default)]
pub struct NgramScratch {
    /// `[rows][streams]`: weights of the values.
    shares: Vec<f32>,
    /// `[rows][streams][width]`: inputs of the convolution.
    normed: Vec<f32>,
}

/// Where the rows before a row are.
struct Past<'a> {
    row: usize,
    kept: usize,
    normed: &'a [f32],
    states: &'a [f32],
}

impl Past<'_> {
    /// The row `back` rows before `index`; none before the sequence's first.
    fn get(&self, run: &DeltaRun<'_>, index: usize, back: usize) -> Option<&[f32]> {
        let at = match (index - run.first).checked_sub(back) {
            Some(inside) => return Some(&self.normed[(run.first + inside) * self.row..][..self.row]),
            None => run.from? * self.kept + self.kept + (index - run.first) - back,
        };
        Some(&self.states[at * self.row..][..self.row])
    }
}

impl Cpu {
    /// Adds to `x` (`[rows][streams][width]`) what the n-grams of its rows give. `runs` are those of
    /// [`Cpu::delta`]; `states` is memory of slots of `dilation (taps - 1)` rows of all streams.
    ///
    /// # Errors
    /// [`KernelError::Length`] for buffers that do not fit, [`KernelError::Shape`] for weights that do not and for runs that do
    /// not follow each other over all rows, [`KernelError::OutOfRange`] for a slot that is not there. Nothing is changed then.
    pub fn ngrams(
        &self,
        weights: &NgramWeights<'_>,
        input: &NgramInput<'_>,
        runs: &[DeltaRun<'_>],
        states: &mut [f32],
        x: &mut [f32],
        scratch: &mut NgramScratch,
    ) -> Result<(), KernelError> {
        let rows = check(weights, input, runs, states, x)?;
        let (row, width, streams) = (weights.row(), weights.width(), weights.streams);
        let NgramScratch { shares, normed } = scratch;
        shares.resize(rows * streams, 0.0);
        normed.resize(rows * row, 0.0);
        let block = split::rows_per_task(rows, row, VALUES_PER_TASK, self.pool.threads());
        let (all, before) = (Shared::new(shares), &*x);
        split::for_row_blocks(&self.pool, normed, row, block, &|first, normed| {
            let count = normed.len() / row;
            // SAFETY: tasks have different rows.
            let shares = unsafe { all.part(first * streams..(first + count) * streams) };
            for (index, (normed, share)) in normed.chunks_exact_mut(width).zip(shares).enumerate() {
                let (at, stream) = (first * row + index * width, index % streams);
                *share = weights.share(&input.key[at..at + width], &before[at..at + width], stream);
                let Some(NgramConv { norm, .. }) = weights.conv else { continue };
                let value = &input.value[(first + index / streams) * width..][..width];
                normed.iter_mut().zip(value).for_each(|(n, value)| *n = *share * value);
                let size = 1.0 / (squares(normed) / width as f32 + norm.eps).sqrt();
                let gain = &norm.gain[stream * width..][..width];
                normed.iter_mut().zip(gain).for_each(|(n, gain)| *n = *n * size * gain);
            }
        });
        let past = Past { row, kept: weights.kept(), normed: &*normed, states: &*states };
        let run_of: Vec<&DeltaRun<'_>> = runs.iter().flat_map(|run| vec![run; run.rows]).collect();
        split::for_row_blocks(&self.pool, x, row, block, &|first, x| {
            let mut sum = vec![0.0; row];
            for (index, x) in (first..).zip(x.chunks_exact_mut(row)) {
                sum.fill(0.0);
                let (taps, dilation) = weights.conv.map_or((&[][..], 0), |conv| (conv.taps, conv.dilation));
                for (tap, conv) in taps.chunks_exact(row).enumerate() {
                    let back = dilation * (taps.len() / row - 1 - tap);
                    let Some(from) = past.get(run_of[index], index, back) else { continue };
                    for ((sum, conv), n) in sum.iter_mut().zip(conv).zip(from) {
                        *sum += conv * n;
                    }
                }
                self.silu_in_place(&mut sum);
                let value = &input.value[index * width..][..width];
                let parts = x.chunks_exact_mut(width).zip(sum.chunks_exact(width));
                for ((x, sum), share) in parts.zip(&shares[index * streams..]) {
                    for ((x, sum), value) in x.iter_mut().zip(sum).zip(value) {
                        *x += share * value + sum;
                    }
                }
            }
        });
        for run in runs {
            save(weights, run, normed, states);
        }
        Ok(())
    }
}

/// Puts the last rows before each row that the run saves into its slot.
fn save(weights: &NgramWeights<'_>, run: &DeltaRun<'_>, normed: &[f32], states: &mut [f32]) {
    let (row, kept) = (weights.row(), weights.kept());
    // The state that the run began with is overwritten last, its oldest row first.
    let own = |save: &&(usize, usize)| run.from == Some(save.1);
    for &(last, slot) in run.saves.iter().filter(|save| !own(save)).chain(run.saves.iter().filter(own)) {
        let passed = last - run.first + 1;
        for index in 0..kept {
            let to = (slot * kept + index) * row;
            match ((passed + index).checked_sub(kept), run.from) {
                (Some(inside), _) => {
                    states[to..to + row].copy_from_slice(&normed[(run.first + inside) * row..][..row]);
                }
                (None, Some(from)) => {
                    let from = (from * kept + passed + index) * row;
                    states.copy_within(from..from + row, to);
                }
                (None, None) => states[to..to + row].fill(0.0),
            }
        }
    }
}

/// The contract of `ngrams`; returns the number of rows.
fn check(
    weights: &NgramWeights<'_>,
    input: &NgramInput<'_>,
    runs: &[DeltaRun<'_>],
    states: &[f32],
    x: &[f32],
) -> Result<usize, KernelError> {
    weights.check()?;
    let row = weights.row();
    let rows = x.len() / row;
    KernelError::length("streams", rows * row, x.len())?;
    KernelError::length("keys of n-grams", x.len(), input.key.len())?;
    KernelError::length("values of n-grams", rows * weights.width(), input.value.len())?;
    let slot = weights.kept() * row;
    let slots = states.len().checked_div(slot).unwrap_or(usize::MAX);
    KernelError::length("states of n-grams", states.len() / slot.max(1) * slot, states.len())?;
    let mut next = 0;
    for run in runs {
        if run.first != next || run.rows == 0 || run.rows > rows - next {
            let rule = "the row after the last run, with rows left";
            return Err(KernelError::Shape { what: "first row of a run", value: run.first, rule });
        }
        next += run.rows;
        for &slot in run.from.iter().chain(run.saves.iter().map(|(_, slot)| slot)) {
            KernelError::below("state slot", slot, slots)?;
        }
        for &(row, _) in run.saves {
            KernelError::below("row of a saved state", row.wrapping_sub(run.first), run.rows)?;
        }
    }
    KernelError::length("rows of all runs", rows, next)?;
    Ok(rows)
}

#[cfg(test)]
mod tests;
