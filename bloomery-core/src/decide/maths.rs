//! The few operations that a head consists of, in f32 with sums in f64 where that costs nothing.

use std::sync::{Mutex, PoisonError};

use bloomery_gguf::Format;
use bloomery_kernels::cpu::{Cpu, KernelError, Matrix, Part, Scratch};

use super::head::{Attention, FeedForward};
use super::memory::Memory;
use super::pieces::{PIECE, Pieces};

/// `x w^T (+ bias)`.
#[derive(Debug)]
pub(super) struct Linear {
    /// Row-major.
    pub(super) weight: Vec<f32>,
    pub(super) cols: usize,
    pub(super) bias: Option<Vec<f32>>,
}

/// `(x - mean) / sqrt(variance + eps) * gain + bias`.
#[derive(Debug)]
pub(super) struct LayerNorm {
    pub(super) gain: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) eps: f32,
}

/// Mean and variance of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Moments {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

impl Moments {
    /// Of a row in pieces.
    pub(super) fn of<'r>(row: impl Iterator<Item = &'r [f32]> + Clone) -> Self {
        let count = row.clone().map(<[f32]>::len).sum::<usize>() as f64;
        let total = |term: &dyn Fn(&[f32]) -> f64| row.clone().map(term).sum::<f64>() / count;
        let mean = total(&|part| sum(part, |x| x));
        Self { mean, variance: total(&|part| sum(part, |x| (x - mean) * (x - mean))) }
    }

    /// Reciprocal deviation.
    fn scale(&self, eps: f32) -> f64 {
        1.0 / (self.variance + f64::from(eps)).sqrt()
    }
}

/// The sum of terms, in f64 and eight sums: one would wait for itself.
fn sum(values: &[f32], term: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0; 8];
    let (eights, rest) = values.as_chunks::<8>();
    for eight in eights {
        sums.iter_mut().zip(eight).for_each(|(sum, &x)| *sum += term(f64::from(x)));
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&x| term(f64::from(x))).sum::<f64>()
}

impl LayerNorm {
    /// Normalises one row into parts.
    pub(super) fn row(&self, row: &[f32], out: &mut [&mut [f32]]) {
        let moments = Moments::of([row].into_iter());
        let (mean, scale) = (moments.mean as f32, moments.scale(self.eps) as f32);
        let mut first = 0;
        for out in out {
            let here = first..first + out.len();
            let known = self.gain[here.clone()].iter().zip(&self.bias[here.clone()]);
            for ((out, &x), (&gain, &bias)) in out.iter_mut().zip(&row[here.clone()]).zip(known) {
                *out = (x - mean) * scale * gain + bias;
            }
            first = here.end;
        }
    }

    /// Normalises rows.
    pub(super) fn rows(&self, rows: &[f32]) -> Vec<f32> {
        let (width, mut out) = (self.gain.len(), vec![0.0; rows.len()]);
        for (row, out) in rows.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            self.row(row, &mut [out]);
        }
        out
    }
}

/// Queries times heads that are scored at a time: 16 MB of scores for 16 384 positions.
pub(super) const QUERIES: usize = 256;

/// Runs operations on the kernels' threads.
pub(super) struct Maths<'c> {
    pub(super) cpu: &'c Cpu,
    scratch: Scratch,
}

impl<'c> Maths<'c> {
    pub(super) fn new(cpu: &'c Cpu) -> Self {
        Self { cpu, scratch: Scratch::default() }
    }

    /// `x w^T (+ bias)` of rows.
    pub(super) fn linear(&mut self, x: &[f32], linear: &Linear) -> Result<Vec<f32>, KernelError> {
        let mut out = vec![0.0; x.len() / linear.cols * (linear.weight.len() / linear.cols)];
        self.product(x, (&linear.weight, linear.cols), linear.bias.as_deref(), false, &mut out)?;
        Ok(out)
    }

    /// Adds `x w^T (+ bias)` of rows to `out`.
    pub(super) fn add(&mut self, x: &[f32], linear: &Linear, out: &mut [f32]) -> Result<(), KernelError> {
        self.product(x, (&linear.weight, linear.cols), linear.bias.as_deref(), true, out)
    }

    fn product(
        &mut self,
        x: &[f32],
        (weight, cols): (&[f32], usize),
        bias: Option<&[f32]>,
        accumulate: bool,
        out: &mut [f32],
    ) -> Result<(), KernelError> {
        let weight = Matrix::new(Format::F32, weight.len() / cols, cols, bytemuck::cast_slice(weight))?;
        let part = Part { weight, bias, out, accumulate };
        self.cpu.project(x, x.len() / cols, None, &mut [part], &mut self.scratch)
    }

    /// `x w^T` of rows, for several matrices at once.
    pub(super) fn pieces<'w>(
        &mut self,
        x: &Pieces,
        weights: &dyn Fn(usize, usize) -> &'w [f32],
        outs: &mut [&mut [f32]],
    ) -> Result<(), KernelError> {
        for piece in 0..x.count() {
            let cols = x.width(piece);
            let mut parts = Vec::with_capacity(outs.len());
            for (index, out) in outs.iter_mut().enumerate() {
                let weight = weights(index, piece);
                let weight =
                    Matrix::new(Format::F32, weight.len() / cols, cols, bytemuck::cast_slice(weight))?;
                parts.push(Part { weight, bias: None, out, accumulate: piece > 0 });
            }
            let x = x.part(piece, 0..x.rows());
            self.cpu.project(x, x.len() / cols, None, &mut parts, &mut self.scratch)?;
        }
        Ok(())
    }

    /// `x += attention(x_normed, memory)`; the memory's rows are normalised first, if `norm` says so.
    ///
    /// Keys and values of the memory are never made: `k q = m (W_k q)` and `sum p v = W_v sum p m`, so that a position
    /// costs as much as there are queries and heads, and not two projections. A normalised row is
    /// `(m - mean) * scale * gain + bias`: the gain goes to the query, the bias adds the same to every score, and mean and
    /// scale are numbers of the row.
    pub(super) fn attend(
        &mut self,
        x: &mut [f32],
        normed: &[f32],
        memory: &Memory,
        norm: Option<&LayerNorm>,
        attention: &Attention,
    ) -> Result<(), KernelError> {
        let width = memory.rows.cols();
        let heads = attention.heads;
        let mut queries = self.linear(normed, &attention.queries)?;
        let scale = (heads as f32 / width as f32).sqrt();
        queries.iter_mut().for_each(|value| *value *= scale);
        let mut values = vec![0.0; queries.len()];
        let block = (QUERIES / heads).max(1) * width;
        for (queries, values) in queries.chunks(block).zip(values.chunks_mut(block)) {
            self.look(queries, memory, norm, attention, values)?;
        }
        self.add(&values, &attention.out, x)
    }

    /// The values that queries find: rows of all heads.
    fn look(
        &mut self,
        queries: &[f32],
        memory: &Memory,
        norm: Option<&LayerNorm>,
        attention: &Attention,
        values: &mut [f32],
    ) -> Result<(), KernelError> {
        let (width, heads) = (memory.rows.cols(), attention.heads);
        let (count, head) = (queries.len() / width, width / heads);
        let keyed = self.key(queries, attention, norm)?;
        let sums: Vec<f64> = match norm {
            None => Vec::new(),
            Some(_) => (0..keyed.rows())
                .map(|row| (0..keyed.count()).map(|piece| sum(keyed.part(piece, row..row + 1), |x| x)).sum())
                .collect(),
        };
        let mut scores = Pieces::zeros(heads * count, memory.len());
        let positions = |index: usize| index * PIECE..memory.len().min((index + 1) * PIECE);
        let rows = |index: usize, piece: usize| memory.rows.part(piece, positions(index));
        self.pieces(&keyed, &rows, &mut scores.each_mut().collect::<Vec<_>>())?;
        let offsets = self.weigh(&mut scores, norm.map(|norm| (&memory.moments[..], &sums[..], norm.eps)));
        let mut seen = vec![0.0; heads * count * width];
        let columns = |_, piece: usize| memory.columns.part(piece, 0..width);
        self.pieces(&scores, &columns, &mut [&mut seen])?;

        let Linear { weight, bias, .. } = &attention.values;
        let mut found = vec![0.0; count * width];
        let tasks =
            seen.chunks_exact_mut(count * width).zip(found.chunks_exact_mut(count * head)).enumerate();
        self.all(tasks.collect(), &|maths, (index, (seen, found)): (usize, (&mut [f32], &mut [f32]))| {
            if let Some(norm) = norm {
                let offsets = &offsets[index * count..][..count];
                for (row, &offset) in seen.chunks_exact_mut(width).zip(offsets) {
                    for (value, (&gain, &bias)) in row.iter_mut().zip(norm.gain.iter().zip(&norm.bias)) {
                        *value = (f64::from(*value) - offset) as f32 * gain + bias;
                    }
                }
            }
            let rows = index * head..(index + 1) * head;
            let weight = &weight[rows.start * width..rows.end * width];
            maths.product(seen, (weight, width), bias.as_ref().map(|bias| &bias[rows]), false, found)
        })?;
        for (index, found) in found.chunks_exact(count * head).enumerate() {
            for (row, found) in values.chunks_exact_mut(width).zip(found.chunks_exact(head)) {
                row[index * head..(index + 1) * head].copy_from_slice(found);
            }
        }
        Ok(())
    }

    /// What rows of the memory are multiplied with: head by head the queries' rows, times the norm's gain.
    fn key(
        &mut self,
        queries: &[f32],
        attention: &Attention,
        norm: Option<&LayerNorm>,
    ) -> Result<Pieces, KernelError> {
        let (width, heads) = (attention.queries.weight.len() / attention.queries.cols, attention.heads);
        let (count, head) = (queries.len() / width, width / heads);
        let mine: Vec<Vec<f32>> =
            (0..heads).map(|index| columns(queries, width, index * head..(index + 1) * head)).collect();
        let mut keyed = Pieces::zeros(heads * count, width);
        let mut tasks = Vec::new();
        for (piece, out) in keyed.each_mut().enumerate() {
            let cols = out.len() / (heads * count);
            let parts = out.chunks_exact_mut(count * cols).enumerate();
            tasks.extend(parts.map(|(index, out)| (index, piece * PIECE, cols, out)));
        }
        self.all(tasks, &|maths, (index, first, cols, out): (usize, usize, usize, &mut [f32])| {
            let keys = &attention.keys[(index * width + first) * head..][..cols * head];
            maths.product(&mine[index], (keys, head), None, false, out)?;
            if let Some(norm) = norm {
                for row in out.chunks_exact_mut(cols) {
                    row.iter_mut().zip(&norm.gain[first..]).for_each(|(value, gain)| *value *= gain);
                }
            }
            Ok(())
        })?;
        Ok(keyed)
    }

    /// Turns rows of scores into weights of positions. Of memory that is normalised a weight is multiplied by its row's
    /// scale, and what the rows' means add up to is returned.
    fn weigh(&self, scores: &mut Pieces, norm: Option<(&[Moments], &[f64], f32)>) -> Vec<f64> {
        let mut offsets = vec![0.0; scores.rows()];
        let scales: Vec<f64> =
            norm.iter().flat_map(|(moments, _, eps)| moments.iter().map(|m| m.scale(*eps))).collect();
        let rows = scores.by_row_mut().into_iter().zip(&mut offsets).enumerate().collect();
        each(self.cpu, rows, &|(index, (mut row, offset)): (usize, (Vec<&mut [f32]>, &mut f64))| {
            let known = || norm.iter().flat_map(|(moments, ..)| moments.iter().zip(&scales));
            if let Some((_, sums, _)) = norm {
                for (score, (moments, scale)) in row.iter_mut().flat_map(|part| part.iter_mut()).zip(known())
                {
                    *score = ((f64::from(*score) - moments.mean * sums[index]) * scale) as f32;
                }
            }
            softmax_of(&mut row);
            for (weight, (moments, scale)) in row.iter_mut().flat_map(|part| part.iter_mut()).zip(known()) {
                let scaled = f64::from(*weight) * scale;
                *offset += scaled * moments.mean;
                *weight = scaled as f32;
            }
        });
        offsets
    }

    /// Runs `work` on every item, on all threads, and returns what failed first.
    fn all<T: Send>(
        &self,
        items: Vec<T>,
        work: &(dyn Fn(&mut Maths<'_>, T) -> Result<(), KernelError> + Sync),
    ) -> Result<(), KernelError> {
        let failed = Mutex::new(Ok(()));
        each(self.cpu, items, &|item| {
            // A region inside a task is that task's alone.
            if let Err(error) = work(&mut Maths::new(self.cpu), item) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Err(error);
            }
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// `x += down(gelu(up(norm(x))))`.
    pub(super) fn feed_forward(&mut self, x: &mut [f32], part: &FeedForward) -> Result<(), KernelError> {
        let mut inner = self.linear(&part.norm.rows(x), &part.up)?;
        self.gelu(&mut inner);
        self.add(&inner, &part.down, x)
    }

    /// `x/2 (1 + erf(x / sqrt 2))`: the exact form, not the one with tanh.
    pub(super) fn gelu(&self, values: &mut [f32]) {
        const CHUNK: usize = 1024;
        each(self.cpu, values.chunks_mut(CHUNK).collect(), &|chunk: &mut [f32]| {
            for value in chunk {
                let x = f64::from(*value);
                *value = (x / 2.0 * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))) as f32;
            }
        });
    }
}

/// Columns of rows of `width` values.
fn columns(rows: &[f32], width: usize, range: std::ops::Range<usize>) -> Vec<f32> {
    rows.chunks_exact(width).flat_map(|row| &row[range.clone()]).copied().collect()
}

/// In place.
pub(super) fn softmax(row: &mut [f32]) {
    softmax_of(&mut [row]);
}

/// In place, of a row in parts.
fn softmax_of(row: &mut [&mut [f32]]) {
    let most = row.iter().flat_map(|part| part.iter()).copied().fold(f32::NEG_INFINITY, f32::max);
    let mut total = 0.0;
    for part in row.iter_mut() {
        part.iter_mut().for_each(|value| *value = (*value - most).exp());
        total += sum(part, |x| x);
    }
    let scale = (1.0 / total) as f32;
    row.iter_mut().for_each(|part| part.iter_mut().for_each(|value| *value *= scale));
}

/// Runs `work` on every item, on all threads.
pub(super) fn each<T: Send>(cpu: &Cpu, items: Vec<T>, work: &(dyn Fn(T) + Sync)) {
    // A pool hands out numbers; an item goes to who gets its number.
    let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    cpu.pool().run(items.len(), &|index| {
        let item = items[index].lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(item) = item {
            work(item);
        }
    });
}

/// The sum of products, in f64.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0.0; 8];
    for (a, b) in a.chunks(8).zip(b.chunks(8)) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (&a, &b))| *sum += f64::from(a) * f64::from(b));
    }
    sums.iter().sum()
}
