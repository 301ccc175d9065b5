//! The few operations that a head consists of, in f32 with sums in f64 where that costs nothing.

use bloomery_gguf::Format;
use bloomery_kernels::cpu::{Cpu, KernelError, Matrix, Part, Scratch};

use super::head::{Attention, FeedForward};

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

/// Mean and reciprocal deviation of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moments {
    pub(super) mean: f64,
    pub(super) scale: f64,
}

impl Moments {
    fn of(row: &[f32], eps: f32) -> Self {
        let count = row.len() as f64;
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
        let squares = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>();
        Self { mean, scale: 1.0 / (squares / count + f64::from(eps)).sqrt() }
    }
}

impl LayerNorm {
    /// Normalises one row.
    pub(super) fn row(&self, row: &[f32], out: &mut [f32]) {
        let Moments { mean, scale } = Moments::of(row, self.eps);
        let (mean, scale) = (mean as f32, scale as f32);
        for ((out, &x), (&gain, &bias)) in out.iter_mut().zip(row).zip(self.gain.iter().zip(&self.bias)) {
            *out = (x - mean) * scale * gain + bias;
        }
    }

    /// Normalises rows.
    pub(super) fn rows(&self, rows: &[f32]) -> Vec<f32> {
        let (width, mut out) = (self.gain.len(), vec![0.0; rows.len()]);
        for (row, out) in rows.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            self.row(row, out);
        }
        out
    }
}

/// What attention looks at: rows, and the same transposed.
pub(super) struct Memory {
    rows: Vec<f32>,
    columns: Vec<f32>,
    width: usize,
}

/// Queries times heads that are scored at a time: 16 MB of scores for 16 384 positions.
pub(super) const QUERIES: usize = 256;

impl Memory {
    pub(super) fn new(rows: Vec<f32>, width: usize) -> Self {
        /// Rows that are read together, so that whole cache lines are written.
        const BLOCK: usize = 16;
        let count = rows.len() / width;
        let mut columns = vec![0.0; rows.len()];
        for (index, block) in rows.chunks(BLOCK * width).enumerate() {
            for (row, values) in block.chunks_exact(width).enumerate() {
                let at = index * BLOCK + row;
                values.iter().enumerate().for_each(|(col, &value)| columns[col * count + at] = value);
            }
        }
        Self { rows, columns, width }
    }

    fn len(&self) -> usize {
        self.rows.len() / self.width
    }

    /// Mean and deviation of every row.
    pub(super) fn moments(&self, eps: f32) -> Vec<Moments> {
        self.rows.chunks_exact(self.width).map(|row| Moments::of(row, eps)).collect()
    }
}

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
        norm: Option<(&LayerNorm, &[Moments])>,
        attention: &Attention,
    ) -> Result<(), KernelError> {
        let width = memory.width;
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
        norm: Option<(&LayerNorm, &[Moments])>,
        attention: &Attention,
        values: &mut [f32],
    ) -> Result<(), KernelError> {
        let (width, heads, positions) = (memory.width, attention.heads, memory.len());
        let (count, head) = (queries.len() / width, width / heads);
        // Head by head.
        let mut keyed = vec![0.0; heads * count * width];
        for (index, keyed) in keyed.chunks_exact_mut(count * width).enumerate() {
            let mine = columns(queries, width, index * head..(index + 1) * head);
            let keys = &attention.keys[index * width * head..(index + 1) * width * head];
            self.product(&mine, (keys, head), None, false, keyed)?;
        }
        let mut sums = Vec::new();
        if let Some((norm, _)) = norm {
            for row in keyed.chunks_exact_mut(width) {
                row.iter_mut().zip(&norm.gain).for_each(|(value, gain)| *value *= gain);
                sums.push(row.iter().map(|&value| f64::from(value)).sum::<f64>());
            }
        }
        let mut scores = vec![0.0; heads * count * positions];
        self.product(&keyed, (&memory.rows, width), None, false, &mut scores)?;
        let offsets = self.weigh(&mut scores, positions, norm.map(|(_, moments)| (moments, &sums[..])));
        let mut seen = keyed;
        self.product(&scores, (&memory.columns, positions), None, false, &mut seen)?;
        if let Some((norm, _)) = norm {
            for (row, &offset) in seen.chunks_exact_mut(width).zip(&offsets) {
                for (value, (&gain, &bias)) in row.iter_mut().zip(norm.gain.iter().zip(&norm.bias)) {
                    *value = (f64::from(*value) - offset) as f32 * gain + bias;
                }
            }
        }
        let Linear { weight, bias, .. } = &attention.values;
        let mut found = vec![0.0; count * head];
        for (index, seen) in seen.chunks_exact(count * width).enumerate() {
            let rows = index * head..(index + 1) * head;
            let weight = &weight[rows.start * width..rows.end * width];
            let bias = bias.as_ref().map(|bias| &bias[rows.clone()]);
            self.product(seen, (weight, width), bias, false, &mut found)?;
            for (row, found) in values.chunks_exact_mut(width).zip(found.chunks_exact(head)) {
                row[rows.clone()].copy_from_slice(found);
            }
        }
        Ok(())
    }

    /// Turns rows of scores into weights of positions. Of memory that is normalised a weight is multiplied by its row's
    /// scale, and what the rows' means add up to is returned.
    fn weigh(&self, scores: &mut [f32], positions: usize, norm: Option<(&[Moments], &[f64])>) -> Vec<f64> {
        let mut offsets = vec![0.0; scores.len() / positions];
        let rows: Vec<_> = scores.chunks_exact_mut(positions).zip(&mut offsets).enumerate().collect();
        each(self.cpu, rows, &|(index, (row, offset)): (usize, (&mut [f32], &mut f64))| {
            if let Some((moments, sums)) = norm {
                for (score, moments) in row.iter_mut().zip(moments) {
                    *score = ((f64::from(*score) - moments.mean * sums[index]) * moments.scale) as f32;
                }
            }
            softmax(row);
            if let Some((moments, _)) = norm {
                for (weight, moments) in row.iter_mut().zip(moments) {
                    let scaled = f64::from(*weight) * moments.scale;
                    *offset += scaled * moments.mean;
                    *weight = scaled as f32;
                }
            }
        });
        offsets
    }

    /// `x += down(gelu(up(norm(x))))`.
    pub(super) fn feed_forward(&mut self, x: &mut [f32], part: &FeedForward) -> Result<(), KernelError> {
        let mut inner = self.linear(&part.norm.rows(x), &part.up)?;
        self.gelu(&mut inner);
        self.add(&inner, &part.down, x)
    }

    /// `x/2 (1 + erf(x / sqrt 2))`: the exact form, not the one with tanh.
    pub(super) fn gelu(&self, values: &mut [f32]) {
        const CHUNK: usize = 4096;
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
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0f64;
    for value in row.iter_mut() {
        *value = (*value - most).exp();
        sum += f64::from(*value);
    }
    let scale = (1.0 / sum) as f32;
    row.iter_mut().for_each(|value| *value *= scale);
}

/// Runs `work` on every item, on all threads.
pub(super) fn each<T: Send>(cpu: &Cpu, items: Vec<T>, work: &(dyn Fn(T) + Sync)) {
    // A pool hands out numbers; an item goes to who gets its number.
    let items: Vec<_> = items.into_iter().map(|item| std::sync::Mutex::new(Some(item))).collect();
    cpu.pool().run(items.len(), &|index| {
        let item = items[index].lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(item) = item {
            work(item);
        }
    });
}

/// The sum of products, in f64.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}
