//! An index over a sequence's blocks of positions: every row attends to the blocks whose keys fit its index queries best, and
//! to those positions behind the last whole block (pooled index of DeepSeek sparse attention, 2025).
//!
//! ```text
//! page of a layer   f32 [64 positions][width]: keys as they came, then gates where there are any
//!                   f32 [64 / block][width]: keys of whole blocks
//! ```
//!
//! Raw keys stay, so that a sequence which is cut in the middle of a block and goes on makes the block's key anew.

mod choose;

use super::kv::{PAGE, RowSlot};
use super::lanes::{Kernel, LANES, Lanes, dispatch};
use super::math::exp_one;
use super::shared::Shared;
use super::{Cpu, KernelError, Norm, RopeSpec, RopeTable, RowView};
use choose::{Choice, Limits};

pub use choose::{Candidates, Masks, Seen};

/// Shape of one layer's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexShape {
    width: usize,
    raw: bool,
    gates: bool,
    block: usize,
}

impl IndexShape {
    /// Keys of `width` values, with as many gates or without, and blocks of `block` positions.
    ///
    /// # Errors
    /// [`KernelError::Shape`] unless the width is a positive multiple of 16 and the block divides a page.
    pub fn new(width: usize, gates: bool, block: usize) -> Result<Self, KernelError> {
        if width == 0 || !width.is_multiple_of(LANES) {
            let rule = "a positive multiple of 16";
            return Err(KernelError::Shape { what: "width of an index key", value: width, rule });
        }
        if block == 0 || !PAGE.is_multiple_of(block) {
            let rule = "a divisor of 64";
            return Err(KernelError::Shape { what: "positions of an indexed block", value: block, rule });
        }
        Ok(Self { width, raw: true, gates, block })
    }

    /// Of blocks whose keys come as they are: those of positions are not kept.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn of_blocks(width: usize, block: usize) -> Result<Self, KernelError> {
        Ok(Self { raw: false, ..Self::new(width, false, block)? })
    }

    /// Values of a page.
    #[must_use]
    pub fn page_len(&self) -> usize {
        self.raw_len() + PAGE / self.block * self.width
    }

    /// Values of a page's keys and gates as they came.
    fn raw_len(&self) -> usize {
        PAGE * self.width * (usize::from(self.raw) + usize::from(self.gates))
    }

    /// Where in a page the key of its block `block` is.
    fn pooled(&self, block: usize) -> std::ops::Range<usize> {
        let start = self.raw_len() + block * self.width;
        start..start + self.width
    }

    fn pages(&self, values: usize) -> Result<usize, KernelError> {
        let pages = values / self.page_len();
        KernelError::length("values of an index", pages * self.page_len(), values)?;
        Ok(pages)
    }
}

/// One layer's index, for reading.
#[derive(Debug, Clone, Copy)]
pub struct IndexLayer<'a> {
    shape: IndexShape,
    pages: usize,
    values: &'a [f32],
}

impl<'a> IndexLayer<'a> {
    /// Views `values` as pages.
    ///
    /// # Errors
    /// [`KernelError::Length`] unless they are whole ones.
    pub fn new(shape: IndexShape, values: &'a [f32]) -> Result<Self, KernelError> {
        Ok(Self { shape, pages: shape.pages(values.len())?, values })
    }

    /// The key of a block of a sequence.
    fn key(&self, pages: &[u32], block: usize) -> &[f32] {
        let of_page = PAGE / self.shape.block;
        let start = pages[block / of_page] as usize * self.shape.page_len();
        &self.values[start..][self.shape.pooled(block % of_page)]
    }
}

/// One layer's index, for appending.
#[derive(Debug)]
pub struct IndexLayerMut<'a> {
    shape: IndexShape,
    pages: usize,
    values: &'a mut [f32],
}

impl<'a> IndexLayerMut<'a> {
    /// As [`IndexLayer::new`].
    ///
    /// # Errors
    /// [`KernelError::Length`] unless they are whole ones.
    pub fn new(shape: IndexShape, values: &'a mut [f32]) -> Result<Self, KernelError> {
        Ok(Self { shape, pages: shape.pages(values.len())?, values })
    }
}

/// `(x - mean) / sqrt(variance + eps) * gain + bias`.
#[derive(Debug, Clone, Copy)]
pub struct LayerNorm<'a> {
    /// One factor a column.
    pub gain: &'a [f32],
    /// Added after it.
    pub bias: &'a [f32],
    /// Added to the variance.
    pub eps: f32,
}

impl LayerNorm<'_> {
    fn in_place(&self, row: &mut [f32]) {
        let count = row.len() as f64;
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
        let squares = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>();
        let (mean, size) = (mean as f32, (1.0 / (squares / count + f64::from(self.eps)).sqrt()) as f32);
        for ((x, gain), bias) in row.iter_mut().zip(self.gain).zip(self.bias) {
            *x = (*x - mean) * size * gain + bias;
        }
    }
}

/// From the keys of a block's positions to the block's.
#[derive(Debug, Clone, Copy)]
pub enum Pooling<'a> {
    /// Their mean, normed, then turned as at the block's first position.
    Mean {
        /// Of the mean.
        norm: Norm<'a>,
        /// The rotation.
        rope: &'a RopeSpec,
    },
    /// The sum of keys, each position's normed, with weights that are a softmax over the block's gates, column by column.
    Softmax {
        /// Of every position's key.
        norm: LayerNorm<'a>,
        /// Added to gates: `[positions of a block][width]`.
        bias: &'a [f32],
    },
    /// That of its last position, which was made of all of them, turned as at the block's first one.
    Made {
        /// Before it is turned.
        norm: Option<Norm<'a>>,
        /// The rotation.
        rope: &'a RopeSpec,
        /// The value with which the turning part begins.
        rope_first: usize,
    },
}

impl Pooling<'_> {
    fn check(&self, shape: IndexShape) -> Result<(), KernelError> {
        let made = matches!(self, Self::Made { .. });
        if made == shape.raw {
            let rule = "keys of blocks for an index of blocks alone";
            return Err(KernelError::Shape { what: "pooled keys", value: usize::from(made), rule });
        }
        match self {
            Self::Made { norm, rope, rope_first } => {
                let gain = norm.map_or(shape.width, |norm| norm.gain.len());
                KernelError::length("gain of block keys", shape.width, gain)?;
                let end = rope_first.saturating_add(rope.rotary);
                if end > shape.width {
                    let rule = "at most the width of an index key";
                    return Err(KernelError::Shape { what: "end of the rotary part", value: end, rule });
                }
                Ok(())
            }
            Self::Mean { norm, rope } => {
                KernelError::length("gain of block keys", shape.width, norm.gain.len())?;
                if rope.rotary > shape.width {
                    let rule = "at most the width of an index key";
                    return Err(KernelError::Shape { what: "rotary width", value: rope.rotary, rule });
                }
                Ok(())
            }
            Self::Softmax { norm, bias } => {
                KernelError::length("gain of index keys", shape.width, norm.gain.len())?;
                KernelError::length("bias of index keys", shape.width, norm.bias.len())?;
                KernelError::length("bias of index gates", shape.block * shape.width, bias.len())
            }
        }
    }
}

/// What rows look for in an index.
#[derive(Debug, Clone, Copy)]
pub struct IndexQuery<'a> {
    /// `[rows][heads][width]`, normed and turned.
    pub q: &'a [f32],
    /// Heads.
    pub heads: usize,
    /// `[rows][heads]`: what each head's fit counts for, if not all the same.
    pub weights: Option<&'a [f32]>,
    /// Multiplies those.
    pub scale: f32,
    /// Blocks that a row sees.
    pub keep: usize,
    /// What it sees of them.
    pub seen: Seen,
}

impl Cpu {
    /// Puts `keys` (`[rows][width]`), and `gates` of the same shape where the index has them, into the slots of their rows,
    /// and makes the keys of the blocks that end with one of the rows. `keys` may be changed.
    ///
    /// # Errors
    /// [`KernelError::Length`] for buffers that do not fit, [`KernelError::Shape`] for a pooling that does not,
    /// [`KernelError::OutOfRange`] for a slot outside the cache.
    pub fn index_append(
        &self,
        (keys, gates): (&mut [f32], Option<&[f32]>),
        pooling: &Pooling<'_>,
        cache: &mut IndexLayerMut<'_>,
        slots: &[RowSlot],
        positions: &[u32],
    ) -> Result<(), KernelError> {
        let shape = cache.shape;
        let (width, page_len) = (shape.width, shape.page_len());
        pooling.check(shape)?;
        KernelError::length("index keys", slots.len() * width, keys.len())?;
        KernelError::length("positions of index keys", slots.len(), positions.len())?;
        let wanted = if shape.gates { keys.len() } else { 0 };
        KernelError::length("index gates", wanted, gates.map_or(0, <[f32]>::len))?;
        for slot in slots {
            KernelError::below("cache page", slot.page as usize, cache.pages)?;
            KernelError::below("position of a page", slot.offset as usize, PAGE)?;
        }
        if let Pooling::Softmax { norm, .. } = pooling {
            keys.chunks_exact_mut(width).for_each(|key| norm.in_place(key));
        }
        let kept = if shape.raw { slots } else { &[] };
        for (row, slot) in kept.iter().enumerate() {
            let page = &mut cache.values[slot.page as usize * page_len..][..page_len];
            let at = slot.offset as usize * width;
            page[at..at + width].copy_from_slice(&keys[row * width..][..width]);
            if let Some(gates) = gates {
                page[PAGE * width + at..][..width].copy_from_slice(&gates[row * width..][..width]);
            }
        }
        let ends = |row: &usize| (slots[*row].offset as usize + 1).is_multiple_of(shape.block);
        let ends: Vec<usize> = (0..slots.len()).filter(ends).collect();
        let table = match pooling {
            Pooling::Mean { rope, .. } | Pooling::Made { rope, .. } => {
                let first = |&row: &usize| (positions[row] + 1).saturating_sub(shape.block as u32);
                Some(RopeTable::new(rope, &ends.iter().map(first).collect::<Vec<u32>>())?)
            }
            Pooling::Softmax { .. } => None,
        };
        for (index, &row) in ends.iter().enumerate() {
            let slot = slots[row];
            let page = &mut cache.values[slot.page as usize * page_len..][..page_len];
            let (raw, _) = page.split_at(shape.raw_len());
            let block = slot.offset as usize / shape.block;
            let rows = block * shape.block * width..(block + 1) * shape.block * width;
            let mut key = vec![0.0; width];
            match pooling {
                Pooling::Made { norm, rope_first, .. } => {
                    key.copy_from_slice(&keys[row * width..][..width]);
                    if let Some(norm) = norm {
                        let size = 1.0 / (super::streams::squares(&key) / width as f32 + norm.eps).sqrt();
                        key.iter_mut().zip(norm.gain).for_each(|(x, gain)| *x = *x * size * gain);
                    }
                    table.iter().for_each(|table| table.turn(index, &mut key[*rope_first..]));
                }
                Pooling::Mean { norm, .. } => {
                    mean(&raw[rows], *norm, &mut key);
                    table.iter().for_each(|table| table.turn(index, &mut key));
                }
                Pooling::Softmax { bias, .. } => {
                    let gates = &raw[PAGE * width..][rows.clone()];
                    softmax_sum(&raw[rows], gates, bias, &mut key);
                }
            }
            page[shape.pooled(block)].copy_from_slice(&key);
        }
        Ok(())
    }

    /// Chooses for every row the `keep` whole blocks with the largest sums over heads of `weight max(q . key, 0)`, of equal
    /// ones those that come first; of rows with no more blocks, all. `candidates` are those of this call, or limit it.
    ///
    /// # Errors
    /// [`KernelError::Length`] for buffers that do not fit, [`KernelError::OutOfRange`] for a page of a row that is not there.
    pub fn index_select(
        &self,
        query: &IndexQuery<'_>,
        cache: &IndexLayer<'_>,
        rows: &[RowView<'_>],
        masks: &mut Masks,
        candidates: Candidates<'_>,
    ) -> Result<(), KernelError> {
        let shape = cache.shape;
        KernelError::length("index queries", rows.len() * query.heads * shape.width, query.q.len())?;
        if let Some(weights) = query.weights {
            KernelError::length("weights of index heads", rows.len() * query.heads, weights.len())?;
        }
        let Masks { words, rows: parts } = masks;
        parts.clear();
        let mut total = 0;
        for row in rows {
            let len = row.len as usize;
            let is_part = len / shape.block > query.keep || (query.seen == Seen::Ends && shape.block > 1);
            let pages = if is_part { len.div_ceil(PAGE) } else { 0 };
            KernelError::below("page of an indexed position", pages, row.pages.len() + 1)?;
            for &page in &row.pages[..pages] {
                KernelError::below("cache page", page as usize, cache.pages)?;
            }
            parts.push((total, pages));
            total += pages;
        }
        words.clear();
        words.resize(total, 0);
        let limits = Limits::new(candidates, rows, shape.block)?;
        let (words, parts) = (Shared::new(words), &*parts);
        let some: Vec<usize> = (0..rows.len()).filter(|&row| parts[row].1 > 0).collect();
        self.pool.run(some.len(), &|task| {
            let row = some[task];
            let (first, len) = parts[row];
            // SAFETY: rows have different words.
            let words = unsafe { words.part(first..first + len) };
            let view = rows[row];
            let mut choice = Choice { block: shape.block, len: view.len as usize, seen: query.seen, words };
            let blocks = choice.len / shape.block;
            if blocks <= query.keep {
                return choice.all();
            }
            let heads = row * query.heads..(row + 1) * query.heads;
            let q = &query.q[heads.start * shape.width..heads.end * shape.width];
            let weights = query.weights.map(|weights| &weights[heads]);
            let mut scores = vec![0.0; blocks];
            let (cache, scale) = (*cache, query.scale);
            dispatch(self.isa, Score { cache, q, weights, scale, pages: view.pages, scores: &mut scores });
            limits.apply(row, &mut scores);
            choice.best(&scores, query.keep);
        });
        Ok(())
    }
}

/// Scores of all whole blocks of a row.
struct Score<'a> {
    cache: IndexLayer<'a>,
    q: &'a [f32],
    weights: Option<&'a [f32]>,
    scale: f32,
    pages: &'a [u32],
    scores: &'a mut [f32],
}

impl Kernel for Score<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let width = self.cache.shape.width;
        for (block, score) in self.scores.iter_mut().enumerate() {
            let key = self.cache.key(self.pages, block);
            for (head, q) in self.q.chunks_exact(width).enumerate() {
                // SAFETY: both have `width` values, a multiple of 16; the instruction set is the caller's promise.
                let fit = unsafe {
                    let mut sum = V::splat(0.0);
                    for at in (0..width).step_by(LANES) {
                        sum = V::load(q.as_ptr().add(at)).fma(V::load(key.as_ptr().add(at)), sum);
                    }
                    sum.sum()
                };
                if fit > 0.0 {
                    *score += self.weights.map_or(fit, |weights| weights[head] * self.scale * fit);
                }
            }
        }
    }
}

/// The mean of rows, normed.
fn mean(rows: &[f32], norm: Norm<'_>, out: &mut [f32]) {
    let width = out.len();
    for row in rows.chunks_exact(width) {
        out.iter_mut().zip(row).for_each(|(out, x)| *out += x);
    }
    let count = (rows.len() / width) as f32;
    out.iter_mut().for_each(|out| *out /= count);
    let size = 1.0 / (super::streams::squares(out) / width as f32 + norm.eps).sqrt();
    out.iter_mut().zip(norm.gain).for_each(|(out, gain)| *out = *out * size * gain);
}

/// The sum of rows with the softmax of their gates as weights, column by column.
fn softmax_sum(rows: &[f32], gates: &[f32], bias: &[f32], out: &mut [f32]) {
    let width = out.len();
    for (column, out) in out.iter_mut().enumerate() {
        let every = |all: &[f32]| all.iter().skip(column).step_by(width).copied().collect::<Vec<f32>>();
        let mut gates: Vec<f32> =
            every(gates).iter().zip(every(bias)).map(|(gate, bias)| gate + bias).collect();
        let most = gates.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        gates.iter_mut().for_each(|gate| *gate = exp_one(*gate - most));
        let total: f32 = gates.iter().sum();
        *out = every(rows).iter().zip(gates).map(|(x, gate)| x * (gate / total)).sum();
    }
}

#[cfg(test)]
mod tests;
