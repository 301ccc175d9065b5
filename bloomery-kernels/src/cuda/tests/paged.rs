//! Sequences in the pages of a cache, packed by the definition of the layout, and attention over them in double precision.

use half::f16;

use super::super::testing::Place;
use super::super::{Buffer, KvCache, KvRows};
use crate::abi::attention::PAGE;
use crate::cpu::KvType;
use crate::cpu::testing::Rng;

const P: usize = PAGE as usize;

/// A head's values as a cache holds them: bytes of each value, or the scales of 32 and int8.
fn rounded(kind: KvType, x: &[f32]) -> (Vec<f64>, Vec<Vec<u8>>, Vec<u16>) {
    match kind {
        KvType::F32 => {
            let bytes = x.iter().map(|x| x.to_le_bytes().to_vec()).collect();
            (x.iter().map(|&x| x.into()).collect(), bytes, Vec::new())
        }
        KvType::F16 => {
            let halves: Vec<f16> = x.iter().map(|&x| f16::from_f32(x)).collect();
            let bytes = halves.iter().map(|x| x.to_le_bytes().to_vec()).collect();
            (halves.iter().map(|&x| x.into()).collect(), bytes, Vec::new())
        }
        KvType::Q8_0 => {
            let (mut values, mut bytes, mut scales) = (Vec::new(), Vec::new(), Vec::new());
            for group in x.chunks(32) {
                let step = group.iter().fold(0.0_f32, |a, x| a.max(x.abs())) / 127.0;
                let inverse = if step > 0.0 { 1.0 / step } else { 0.0 };
                let scale = f16::from_f32(step);
                for x in group {
                    let quant = x.mul_add(inverse, 12_582_912.0) - 12_582_912.0;
                    values.push(f64::from(quant) * f64::from(scale));
                    bytes.push(vec![quant as i8 as u8]);
                }
                scales.push(scale.to_bits());
            }
            (values, bytes, scales)
        }
    }
}

/// Several sequences, their pages in shuffled order.
#[derive(Clone)]
pub(super) struct Sequences {
    pub(super) shape: KvCache,
    pub(super) lens: Vec<usize>,
    pub(super) stride: usize,
    pub(super) table: Vec<u32>,
    /// `[sequence][position][kv_head][dim]`, as given.
    pub(super) k: Vec<Vec<f32>>,
    pub(super) v: Vec<Vec<f32>>,
    /// The same as the cache rounds them.
    keys: Vec<Vec<f64>>,
    values: Vec<Vec<f64>>,
    pages: usize,
}

impl Sequences {
    pub(super) fn new(rng: &mut Rng, shape: KvCache, lens: &[usize]) -> Self {
        let stride = lens.iter().max().unwrap().div_ceil(P) + 1;
        let pages = lens.iter().map(|len| len.div_ceil(P)).sum::<usize>() + 2;
        let mut free: Vec<u32> = (0..pages as u32).collect();
        let mut table = vec![u32::MAX; lens.len() * stride];
        for (s, len) in lens.iter().enumerate() {
            for i in 0..len.div_ceil(P) {
                table[s * stride + i] = free.swap_remove(rng.below(free.len()));
            }
        }
        let heads = shape.kv_heads();
        let all = |rng: &mut Rng, dim: usize| -> Vec<Vec<f32>> {
            lens.iter().map(|len| rng.normals(len * heads * dim)).collect()
        };
        let (k, v) = (all(rng, shape.key_dim()), all(rng, shape.value_dim()));
        let round = |x: &[Vec<f32>]| x.iter().map(|x| rounded(shape.kind(), x).0).collect();
        let (keys, values) = (round(&k), round(&v));
        Self { shape, lens: lens.to_vec(), stride, table, k, v, keys, values, pages }
    }

    /// Keys are values too.
    pub(super) fn shared(self) -> Self {
        Self { v: self.k.clone(), values: self.keys.clone(), ..self }
    }

    /// The logarithm of the sum of `e^score` over these positions of a sequence.
    pub(super) fn log_sum(
        &self,
        q: &[f32],
        (sequence, positions): (usize, &[usize]),
        kv_head: usize,
        scale: f32,
    ) -> f64 {
        let (heads, dim) = (self.shape.kv_heads(), self.shape.key_dim());
        let score = |p: &usize| {
            let key = &self.keys[sequence][(p * heads + kv_head) * dim..][..dim];
            key.iter().zip(q).map(|(k, q)| k * f64::from(*q)).sum::<f64>() * f64::from(scale)
        };
        positions.iter().map(|p| score(p).exp()).sum::<f64>().ln()
    }

    /// The same pages with other values.
    pub(super) fn with(&self, k: Vec<Vec<f32>>, v: Vec<Vec<f32>>) -> Self {
        Self { k, v, ..self.clone() }
    }

    /// Pages of keys and of values. What no position wrote is 0xff: NaN in floats and scales.
    pub(super) fn packed(&self) -> [Vec<u8>; 2] {
        let shape = self.shape;
        let mut keys = vec![0xff; self.pages * shape.key_page_bytes()];
        let mut values = vec![0xff; self.pages * shape.value_page_bytes()];
        for (s, len) in self.lens.iter().enumerate() {
            for position in 0..*len {
                for head in 0..shape.kv_heads() {
                    for (is_key, pages, x, dim) in [
                        (true, &mut keys, &self.k[s], shape.key_dim()),
                        (false, &mut values, &self.v[s], shape.value_dim()),
                    ] {
                        let x = &x[(position * shape.kv_heads() + head) * dim..][..dim];
                        let page = self.table[s * self.stride + position / P] as usize;
                        let head_bytes = shape.kind().bytes(P * dim);
                        let part = (page * shape.kv_heads() + head) * head_bytes;
                        pack(&mut pages[part..part + head_bytes], shape.kind(), is_key, position % P, x);
                    }
                }
            }
        }
        [keys, values]
    }

    /// On a card, for these `(sequence, position)`s.
    pub(super) fn buffers(&self, place: &mut Place, rows: &[(usize, usize)]) -> (KvRows, [Buffer<u8>; 2]) {
        let [keys, values] = self.packed().map(|bytes| place.buffer(&bytes));
        let rows_of = self.rows(place, rows, &keys, &values);
        (rows_of, [keys, values])
    }

    /// The same pages for other rows.
    pub(super) fn rows(
        &self,
        place: &mut Place,
        rows: &[(usize, usize)],
        keys: &Buffer<u8>,
        values: &Buffer<u8>,
    ) -> KvRows {
        let positions: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
        let sequences: Vec<u32> = rows.iter().map(|row| row.0 as u32).collect();
        KvRows {
            shape: self.shape,
            keys: keys.span(),
            values: values.span(),
            table: place.buffer(&self.table).span(),
            stride: self.stride,
            positions: place.buffer(&positions).span(),
            sequences: place.buffer(&sequences).span(),
        }
    }

    /// One head of one row, and how far off each value may be with operands of `bits` bits.
    pub(super) fn attention(
        &self,
        q: &[f32],
        (sequence, position): (usize, usize),
        kv_head: usize,
        (scale, window): (f32, Option<usize>),
        weight_bits: i32,
    ) -> (Vec<f64>, Vec<f64>) {
        let low = (position + 1).saturating_sub(window.unwrap_or(usize::MAX));
        let positions: Vec<usize> = (low..=position).collect();
        self.attention_to(q, (sequence, &positions), kv_head, scale, weight_bits)
    }

    /// The same over these positions of a sequence.
    pub(super) fn attention_to(
        &self,
        q: &[f32],
        (sequence, positions): (usize, &[usize]),
        kv_head: usize,
        scale: f32,
        weight_bits: i32,
    ) -> (Vec<f64>, Vec<f64>) {
        let (heads, key_dim, dim) = (self.shape.kv_heads(), self.shape.key_dim(), self.shape.value_dim());
        let unit = |bits: i32| 2.0_f64.powi(-bits);
        let mut scores = Vec::new();
        // Queries have 22 bits; a sum loses up to a bit below the last one at each of its steps, of which there are fewer
        // than dimensions. These errors are independent: six standard deviations of them.
        let mut off = 0.0_f64;
        for p in positions {
            let key = &self.keys[sequence][(p * heads + kv_head) * key_dim..][..key_dim];
            let terms = key.iter().zip(q).map(|(k, q)| k * f64::from(*q));
            scores.push(terms.clone().sum::<f64>() * f64::from(scale));
            let square = terms.map(|term| term * term).sum::<f64>().sqrt() * f64::from(scale);
            off = off.max(6.0 * square * (unit(22) + (key_dim as f64).sqrt() * unit(24)));
        }
        let most = scores.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
        let total: f64 = scores.iter().map(|s| (s - most).exp()).sum();
        // An error e of a score moves its weight by e, and so the sum; powers of two are good to 2^-22. Values add up
        // 16 at a time, and pieces in one more step each.
        let steps = (positions.len() as f64 / 16.0 + 40.0).sqrt();
        let relative = 2.0 * off + 6.0 * (unit(weight_bits) + unit(22) + steps * unit(24));
        let (mut out, mut squares) = (vec![0.0; dim], vec![0.0; dim]);
        for (p, score) in positions.iter().zip(&scores) {
            let value = &self.values[sequence][(p * heads + kv_head) * dim..][..dim];
            let weight = (score - most).exp() / total;
            // Halves end at 2^-24.
            let each = weight * relative + 6.0 * unit(25) / total;
            for ((out, square), v) in out.iter_mut().zip(&mut squares).zip(value) {
                *out += weight * v;
                *square += (each * v).powi(2);
            }
        }
        let bound = squares.into_iter().map(|square: f64| square.sqrt() + 1e-30).collect();
        (out, bound)
    }
}

/// Writes a position of a head to its part of a page.
fn pack(part: &mut [u8], kind: KvType, is_key: bool, offset: usize, x: &[f32]) {
    let (dim, size) = (x.len(), kind.bytes(32) / 32);
    let (_, bytes, scales) = rounded(kind, x);
    for (d, bytes) in bytes.iter().enumerate() {
        let element = if is_key { offset * dim + d } else { (offset / 4 * dim + d) * 4 + offset % 4 };
        part[element * size..][..size].copy_from_slice(bytes);
    }
    for (group, scale) in scales.iter().enumerate() {
        let at = P * dim + 2 * (group * P + offset);
        part[at..at + 2].copy_from_slice(&scale.to_le_bytes());
    }
}
