//! Residual streams: several rows of the model's width for each token, of which layers read a mixture and to which they add
//! what they return.
//!
//! Two kinds. *Gated* streams (Qwen3.8): streams are normalised each by itself, a layer reads the mean of what sigmoids let
//! through, and adds its result to every stream by a weight of its own. *Hyper-connections* (Zhu et al., 2024; with Sinkhorn's
//! projection in DeepSeek-V4 and GLM-5.3): weights from all streams say what a layer reads, what each stream gets of
//! its result, and how the streams mix.
//!
//! All in f32, one rounding an operation; sums over a row run in 16 lanes (lane = index mod 16) that one fixed tree folds.

use super::lanes::{Kernel, LANES, Lanes, dispatch};
use super::math::{gated, sigmoid_one, silu};
use super::{Cpu, KernelError, Norm, split};

/// Values one task is worth.
const VALUES_PER_TASK: usize = 8192;

/// Most streams of a token.
pub const MOST_STREAMS: usize = 8;

/// How weights of hyper-connections are made of their logits.
#[derive(Debug, Clone, Copy)]
pub struct HyperSpec<'a> {
    /// Streams, at most [`MOST_STREAMS`].
    pub streams: usize,
    /// Multiplies the logits: of what is read, of what is written, of how streams mix. Where there is one alone, streams are only
    /// read.
    pub scale: &'a [f32],
    /// Added to them: `streams` for reading, `streams` for writing, `streams^2` for mixing, source by source.
    pub base: &'a [f32],
    /// Added to the mean square of all streams.
    pub norm_eps: f32,
    /// Added to weights, and to the sums they are divided by.
    pub eps: f32,
    /// Rounds of dividing by the sums of rows and columns.
    pub rounds: usize,
}

impl HyperSpec<'_> {
    /// Weights of a token.
    #[must_use]
    pub fn weights(&self) -> usize {
        if self.scale.len() == 1 { self.streams } else { self.streams * (self.streams + 2) }
    }

    fn check(&self, x: usize, weights: usize) -> Result<(usize, usize), KernelError> {
        streams_fit(self.streams)?;
        if self.scale.len() != 1 {
            KernelError::length("scales of hyper-connections", 3, self.scale.len())?;
        }
        KernelError::length("bases of hyper-connections", self.weights(), self.base.len())?;
        let rows = weights / self.weights();
        KernelError::length("weights of hyper-connections", rows * self.weights(), weights)?;
        let width = x / (rows * self.streams).max(1);
        KernelError::length("streams", rows * self.streams * width, x)?;
        Ok((rows, width))
    }

    /// From a token's logits, which its streams' size divides, to its weights.
    fn finish(&self, streams: &[f32], weights: &mut [f32]) {
        let (count, mean) = (self.streams, squares(streams) / streams.len() as f32);
        let size = 1.0 / (mean + self.norm_eps).sqrt();
        let kinds = [0..count, count..2 * count, 2 * count..weights.len()];
        for (kind, &scale) in kinds.into_iter().zip(self.scale) {
            for (weight, base) in weights[kind.clone()].iter_mut().zip(&self.base[kind]) {
                *weight = *weight * size * scale + base;
            }
        }
        let (read, rest) = weights.split_at_mut(count);
        read.iter_mut().for_each(|weight| *weight = sigmoid_one(*weight) + self.eps);
        let Some((write, mix)) = rest.split_at_mut_checked(count) else { return };
        write.iter_mut().for_each(|weight| *weight = 2.0 * sigmoid_one(*weight));
        self.sinkhorn(mix);
    }

    /// Makes rows a softmax, and then all sums of rows and columns nearly 1 (Sinkhorn, 1967).
    fn sinkhorn(&self, mix: &mut [f32]) {
        for row in mix.chunks_exact_mut(self.streams) {
            let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row.iter_mut().for_each(|value| *value = super::math::exp_one(*value - most));
            let sum: f32 = row.iter().sum();
            row.iter_mut().for_each(|value| *value = *value / sum + self.eps);
        }
        for round in 0..self.rounds {
            if round > 0 {
                for row in mix.chunks_exact_mut(self.streams) {
                    let sum = row.iter().sum::<f32>() + self.eps;
                    row.iter_mut().for_each(|value| *value /= sum);
                }
            }
            for column in 0..self.streams {
                let sum = mix.iter().skip(column).step_by(self.streams).sum::<f32>() + self.eps;
                mix.iter_mut().skip(column).step_by(self.streams).for_each(|value| *value /= sum);
            }
        }
    }
}

/// Columns of rows of `cols` values, from `first` on.
#[derive(Debug)]
pub struct Columns<'a> {
    /// All of the rows.
    pub values: &'a mut [f32],
    /// Values of a row.
    pub cols: usize,
    /// The first of the columns.
    pub first: usize,
}

impl Cpu {
    /// Normalises every stream of `x` (`[rows][streams][width]`) by itself; the gain is for all streams of a row.
    ///
    /// # Errors
    /// [`KernelError::Length`] for buffers that do not hold whole rows, [`KernelError::Shape`] for no or too many streams.
    pub fn stream_norm(
        &self,
        x: &[f32],
        streams: usize,
        norm: Norm<'_>,
        out: &mut [f32],
    ) -> Result<(), KernelError> {
        streams_fit(streams)?;
        let (all, width) = (norm.gain.len(), norm.gain.len() / streams);
        KernelError::length("gain of streams", width * streams, all)?;
        KernelError::length("streams", x.len() / all.max(1) * all, x.len())?;
        KernelError::length("normed streams", x.len(), out.len())?;
        self.stream_rows(out, all, &|first, out| {
            let x = &x[first * all..][..out.len()];
            for (x, out) in x.chunks_exact(all).zip(out.chunks_exact_mut(all)) {
                let gains = norm.gain.chunks_exact(width);
                let parts = x.chunks_exact(width).zip(out.chunks_exact_mut(width));
                for ((x, out), gain) in parts.zip(gains) {
                    let size = 1.0 / (squares(x) / width as f32 + norm.eps).sqrt();
                    for ((out, x), gain) in out.iter_mut().zip(x).zip(gain) {
                        *out = x * size * gain;
                    }
                }
            }
        });
        Ok(())
    }

    /// `x = silu(scale x)`, value by value.
    pub fn scaled_silu(&self, x: &mut [f32], scale: f32) {
        self.stream_rows(x, 1, &|_, x| dispatch(self.isa, ScaledSilu { x, scale }));
    }

    /// `out[t]` = the mean over streams of `x[t][s] / (1 + e^-gate[t][s])`.
    ///
    /// # Errors
    /// As for [`stream_norm`](Self::stream_norm).
    pub fn gated_mean(
        &self,
        x: &[f32],
        gate: &[f32],
        streams: usize,
        width: usize,
        out: &mut [f32],
    ) -> Result<(), KernelError> {
        mixes(x, streams, width, out)?;
        KernelError::length("gates of streams", x.len(), gate.len())?;
        self.stream_rows(out, width, &|first, out| {
            for (row, out) in (first..).zip(out.chunks_exact_mut(width)) {
                out.fill(0.0);
                for stream in row * streams..(row + 1) * streams {
                    let at = stream * width..(stream + 1) * width;
                    dispatch(self.isa, AddGated { x: &x[at.clone()], gate: &gate[at], out: &mut *out });
                }
                out.iter_mut().for_each(|out| *out /= streams as f32);
            }
        });
        Ok(())
    }

    /// `x[t][s] += 2 sigmoid(weights[t][s] / streams) y[t]`.
    ///
    /// # Errors
    /// As for [`stream_norm`](Self::stream_norm).
    pub fn inject(
        &self,
        y: &[f32],
        weights: &[f32],
        streams: usize,
        x: &mut [f32],
    ) -> Result<(), KernelError> {
        streams_fit(streams)?;
        let rows = weights.len() / streams;
        let width = y.len() / rows.max(1);
        KernelError::length("weights of streams", rows * streams, weights.len())?;
        KernelError::length("results", rows * width, y.len())?;
        KernelError::length("streams", rows * streams * width, x.len())?;
        self.stream_rows(x, streams * width, &|first, x| {
            for (row, x) in (first..).zip(x.chunks_exact_mut(streams * width)) {
                let (y, weights) = (&y[row * width..][..width], &weights[row * streams..][..streams]);
                for (stream, weight) in x.chunks_exact_mut(width).zip(weights) {
                    let weight = 2.0 * sigmoid_one(weight / streams as f32);
                    stream.iter_mut().zip(y).for_each(|(x, y)| *x += weight * y);
                }
            }
        });
        Ok(())
    }

    /// Makes `weights` (`[rows][spec.weights()]`) of the logits in their place, which are products with the streams of `x`
    /// (`[rows][streams][width]`) before a norm over all of a row.
    ///
    /// # Errors
    /// As for [`stream_norm`](Self::stream_norm).
    pub fn hyper_weights(
        &self,
        x: &[f32],
        spec: &HyperSpec<'_>,
        weights: &mut [f32],
    ) -> Result<(), KernelError> {
        let (_, width) = spec.check(x.len(), weights.len())?;
        let all = spec.streams * width;
        let block = split::rows_per_task(x.len() / all.max(1), all, VALUES_PER_TASK, self.pool.threads());
        split::for_row_blocks(&self.pool, weights, spec.weights(), block, &|first, weights| {
            for (row, weights) in (first..).zip(weights.chunks_exact_mut(spec.weights())) {
                spec.finish(&x[row * all..][..all], weights);
            }
        });
        Ok(())
    }

    /// `out[t]` = the sum over streams of `weight x[t][s]`, with the first `streams` of each row's `each` weights.
    ///
    /// # Errors
    /// As for [`stream_norm`](Self::stream_norm).
    pub fn hyper_read(
        &self,
        x: &[f32],
        (weights, each): (&[f32], usize),
        streams: usize,
        out: &mut [f32],
    ) -> Result<(), KernelError> {
        streams_fit(streams)?;
        KernelError::below("weights for reading", streams, each + 1)?;
        let rows = weights.len() / each;
        let width = out.len() / rows.max(1);
        KernelError::length("weights of hyper-connections", rows * each, weights.len())?;
        KernelError::length("mixed streams", rows * width, out.len())?;
        KernelError::length("streams", rows * streams * width, x.len())?;
        self.stream_rows(out, width, &|first, out| {
            for (row, out) in (first..).zip(out.chunks_exact_mut(width.max(1))) {
                let weights = &weights[row * each..][..streams];
                out.fill(0.0);
                for (stream, weight) in weights.iter().enumerate() {
                    let x = &x[(row * streams + stream) * width..][..width];
                    out.iter_mut().zip(x).for_each(|(out, x)| *out += weight * x);
                }
            }
        });
        Ok(())
    }

    /// `x[t][j] = write[j] y[t] + sum over i of mix[i][j] x[t][i]`.
    ///
    /// # Errors
    /// As for [`stream_norm`](Self::stream_norm).
    pub fn hyper_write(
        &self,
        y: &[f32],
        weights: &[f32],
        spec: &HyperSpec<'_>,
        x: &mut [f32],
    ) -> Result<(), KernelError> {
        let (rows, width) = spec.check(x.len(), weights.len())?;
        KernelError::length("scales of hyper-connections", 3, spec.scale.len())?;
        KernelError::length("results", rows * width, y.len())?;
        let count = spec.streams;
        self.stream_rows(x, count * width, &|first, x| {
            for (row, x) in (first..).zip(x.chunks_exact_mut((count * width).max(1))) {
                let weights = &weights[row * spec.weights()..][count..spec.weights()];
                let (write, mix) = weights.split_at(count);
                for (column, y) in y[row * width..][..width].iter().enumerate() {
                    let mut before = [0.0; MOST_STREAMS];
                    for (stream, before) in before[..count].iter_mut().enumerate() {
                        *before = x[stream * width + column];
                    }
                    for (j, write) in write.iter().enumerate() {
                        let mut sum = write * y;
                        for (i, before) in before[..count].iter().enumerate() {
                            sum += mix[i * count + j] * before;
                        }
                        x[j * width + column] = sum;
                    }
                }
            }
        });
        Ok(())
    }

    /// `out[t]` = the mean of the streams of `x[t]`.
    ///
    /// # Errors
    /// As for [`stream_norm`](Self::stream_norm), and where a mean is wider than a row.
    pub fn stream_mean(
        &self,
        x: &[f32],
        streams: usize,
        width: usize,
        out: Columns<'_>,
    ) -> Result<(), KernelError> {
        streams_fit(streams)?;
        let Columns { values, cols, first } = out;
        let rows = values.len() / cols.max(1);
        KernelError::length("rows of means", rows * cols, values.len())?;
        KernelError::length("columns of a mean", width, width.min(cols.saturating_sub(first)))?;
        KernelError::length("streams", rows * streams * width, x.len())?;
        self.stream_rows(values, cols, &|start, out| {
            for (row, out) in (start..).zip(out.chunks_exact_mut(cols)) {
                let out = &mut out[first..first + width];
                out.copy_from_slice(&x[row * streams * width..][..width]);
                for stream in row * streams + 1..(row + 1) * streams {
                    out.iter_mut().zip(&x[stream * width..][..width]).for_each(|(out, x)| *out += x);
                }
                out.iter_mut().for_each(|out| *out /= streams as f32);
            }
        });
        Ok(())
    }

    /// `x = silu(x)` on this thread.
    pub(super) fn silu_in_place(&self, x: &mut [f32]) {
        dispatch(self.isa, ScaledSilu { x, scale: 1.0 });
    }

    /// Hands blocks of rows to tasks.
    fn stream_rows(&self, out: &mut [f32], cols: usize, work: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        let rows = out.len() / cols.max(1);
        let block = split::rows_per_task(rows, cols, VALUES_PER_TASK, self.pool.threads());
        split::for_row_blocks(&self.pool, out, cols, block, work);
    }
}

struct ScaledSilu<'a> {
    x: &'a mut [f32],
    scale: f32,
}

impl Kernel for ScaledSilu<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let (all, rest) = self.x.as_chunks_mut::<LANES>();
        let mut tail = [0.0; LANES];
        tail[..rest.len()].copy_from_slice(rest);
        for values in all.iter_mut().chain([&mut tail]) {
            // SAFETY: arrays of 16 values; the instruction set is the caller's promise.
            unsafe {
                let x = V::load(values.as_ptr()).mul(V::splat(self.scale));
                silu(x).store(values.as_mut_ptr());
            }
        }
        rest.copy_from_slice(&tail[..rest.len()]);
    }
}

/// `out += x / (1 + e^-gate)`; equal lengths.
struct AddGated<'a> {
    x: &'a [f32],
    gate: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for AddGated<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let ((x, x_rest), (gate, gate_rest)) = (self.x.as_chunks(), self.gate.as_chunks());
        let (out, out_rest) = self.out.as_chunks_mut();
        let step = |x: &[f32; LANES], gate: &[f32; LANES], out: &mut [f32; LANES]| {
            // SAFETY: arrays of 16 values; the instruction set is the caller's promise.
            unsafe {
                let added = gated(V::load(x.as_ptr()), V::load(gate.as_ptr()));
                V::load(out.as_ptr()).add(added).store(out.as_mut_ptr());
            }
        };
        for ((x, gate), out) in x.iter().zip(gate).zip(out) {
            step(x, gate, out);
        }
        let mut tails = [[0.0; LANES]; 3];
        for (tail, rest) in tails.iter_mut().zip([x_rest, gate_rest, &*out_rest]) {
            tail[..rest.len()].copy_from_slice(rest);
        }
        let [x, gate, out] = &mut tails;
        step(x, gate, out);
        out_rest.copy_from_slice(&out[..out_rest.len()]);
    }
}

/// An error unless there may be so many.
pub(super) fn streams_fit(streams: usize) -> Result<(), KernelError> {
    if (1..=MOST_STREAMS).contains(&streams) {
        return Ok(());
    }
    Err(KernelError::Shape { what: "residual streams", value: streams, rule: "1 to 8" })
}

/// An error unless `x` has streams for all rows of `out`.
fn mixes(x: &[f32], streams: usize, width: usize, out: &[f32]) -> Result<(), KernelError> {
    streams_fit(streams)?;
    let rows = out.len() / width.max(1);
    KernelError::length("mixed streams", rows * width, out.len())?;
    KernelError::length("streams", rows * streams * width, x.len())
}

/// The sum of squares.
pub(super) fn squares(x: &[f32]) -> f32 {
    dot(x, x)
}

/// The sum of products.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    for ((lane, a), b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane += a * b;
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}

#[cfg(test)]
mod tests;
