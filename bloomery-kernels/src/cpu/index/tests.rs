//! The index against a plain program in double precision, and that cuts, pages and threads do not show.

use super::super::rope::Pairs;
use super::super::testing::{Rng, bits, cpus};
use super::*;

/// A sequence whose pages lie in reverse order.
struct Sequence {
    shape: IndexShape,
    pages: Vec<u32>,
    keys: Vec<f32>,
    gates: Option<Vec<f32>>,
}

impl Sequence {
    fn new(rng: &mut Rng, width: usize, gates: bool, block: usize, len: usize) -> Self {
        let shape = IndexShape::new(width, gates, block).unwrap();
        let pages = (0..len.div_ceil(PAGE) as u32).rev().collect();
        let keys = rng.normals(len * width);
        let gates = gates.then(|| rng.normals(len * width));
        Self { shape, pages, keys, gates }
    }

    fn slot(&self, position: usize) -> RowSlot {
        RowSlot { page: self.pages[position / PAGE], offset: (position % PAGE) as u32 }
    }

    /// Appends all rows, `piece` at a time, to memory that held something else.
    fn append(&self, cpu: &Cpu, pooling: &Pooling<'_>, piece: usize) -> Vec<f32> {
        let mut values = vec![f32::NAN; self.pages.len() * self.shape.page_len()];
        let width = self.shape.width;
        let len = self.keys.len() / width;
        for start in (0..len).step_by(piece) {
            let rows = start..len.min(start + piece);
            let slots: Vec<RowSlot> = rows.clone().map(|position| self.slot(position)).collect();
            let positions: Vec<u32> = rows.clone().map(|position| position as u32).collect();
            let part = rows.start * width..rows.end * width;
            let mut keys = self.keys[part.clone()].to_vec();
            let gates = self.gates.as_ref().map(|gates| &gates[part]);
            let mut cache = IndexLayerMut::new(self.shape, &mut values).unwrap();
            cpu.index_append((&mut keys, gates), pooling, &mut cache, &slots, &positions).unwrap();
        }
        values
    }

    /// Keys of all whole blocks in double precision.
    fn exact(&self, pooling: &Pooling<'_>) -> Vec<Vec<f64>> {
        let (width, block) = (self.shape.width, self.shape.block);
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        let keys = self.keys.chunks_exact(width * block).enumerate();
        keys.map(|(index, keys)| match pooling {
            Pooling::Made { .. } => unreachable!("keys of positions"),
            Pooling::Mean { norm, rope } => {
                let mean = |c: usize| wide(keys).iter().skip(c).step_by(width).sum::<f64>() / block as f64;
                let mean: Vec<f64> = (0..width).map(mean).collect();
                let square = mean.iter().map(|x| x * x).sum::<f64>() / width as f64 + f64::from(norm.eps);
                let gained = mean.iter().zip(norm.gain).map(|(x, g)| x / square.sqrt() * f64::from(*g));
                let mut key: Vec<f64> = gained.collect();
                let half = rope.rotary / 2;
                for pair in 0..half {
                    let turn = f64::from(rope.base).powf(-2.0 * pair as f64 / rope.rotary as f64);
                    let (s, c) = ((index * block) as f64 * turn).sin_cos();
                    let (a, b) = (key[pair], key[pair + half]);
                    (key[pair], key[pair + half]) = (a * c - b * s, b * c + a * s);
                }
                key
            }
            Pooling::Softmax { norm, bias } => {
                let rows: Vec<Vec<f64>> = keys
                    .chunks_exact(width)
                    .map(|row| {
                        let row = wide(row);
                        let mean = row.iter().sum::<f64>() / width as f64;
                        let spread = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
                        let size = (spread + f64::from(norm.eps)).sqrt();
                        let weights = norm.gain.iter().zip(norm.bias);
                        row.iter()
                            .zip(weights)
                            .map(|(x, (g, b))| (x - mean) / size * f64::from(*g) + f64::from(*b))
                            .collect()
                    })
                    .collect();
                let gates = &self.gates.as_ref().unwrap()[index * block * width..][..block * width];
                let column = |c: usize| {
                    let gate =
                        |j: usize| (f64::from(gates[j * width + c]) + f64::from(bias[j * width + c])).exp();
                    let total: f64 = (0..block).map(gate).sum();
                    (0..block).map(|j| rows[j][c] * gate(j) / total).sum()
                };
                (0..width).map(column).collect()
            }
        })
        .collect()
    }
}

struct Weights {
    gain: Vec<f32>,
    bias: Vec<f32>,
    gate_bias: Vec<f32>,
    rope: RopeSpec,
}

impl Weights {
    fn new(rng: &mut Rng, width: usize, block: usize) -> Self {
        let gain = rng.normals(width).iter().map(|x| 1.0 + 0.1 * x).collect();
        let rope = RopeSpec::new(Pairs::Neox, width / 2, 10_000.0);
        Self { gain, bias: rng.normals(width), gate_bias: rng.normals(block * width), rope }
    }

    fn pooling(&self, gates: bool) -> Pooling<'_> {
        match gates {
            false => Pooling::Mean { norm: Norm { gain: &self.gain, eps: 1e-6 }, rope: &self.rope },
            true => {
                let norm = LayerNorm { gain: &self.gain, bias: &self.bias, eps: 1e-6 };
                Pooling::Softmax { norm, bias: &self.gate_bias }
            }
        }
    }
}

#[test]
fn keys_of_blocks_and_choices() {
    let mut rng = Rng::new(3);
    for (width, gates, block) in
        [(32, false, 4), (32, true, 8), (128, false, 8), (16, true, 4), (16, false, 64)]
    {
        let (len, heads, keep) = (300, 5, 4);
        let seq = Sequence::new(&mut rng, width, gates, block, len);
        let weights = Weights::new(&mut rng, width, block);
        let pooling = weights.pooling(gates);
        let exact = seq.exact(&pooling);
        let q = rng.normals(len * heads * width);
        let head_weights = rng.normals(len * heads);
        let query = IndexQuery {
            q: &q,
            heads,
            weights: gates.then_some(&head_weights[..]),
            scale: 0.1,
            keep,
            seen: Seen::Positions,
        };
        let rows: Vec<RowView<'_>> =
            (1..=len).map(|len| RowView { pages: &seq.pages, len: len as u32, mask: None }).collect();
        let mut first: Option<Vec<Option<Vec<u64>>>> = None;
        for cpu in cpus() {
            for piece in [len, 1, 7] {
                let values = seq.append(&cpu, &pooling, piece);
                let cache = IndexLayer::new(seq.shape, &values).unwrap();
                for (block, exact) in exact.iter().enumerate() {
                    for (found, exact) in cache.key(&seq.pages, block).iter().zip(exact) {
                        // Norms and sums of up to 64 values of order 1.
                        assert!((f64::from(*found) - exact).abs() < 1e-5, "{width} {block}: {found} {exact}");
                    }
                }
                let mut masks = Masks::default();
                cpu.index_select(&query, &cache, &rows, &mut masks, Candidates::None).unwrap();
                let all: Vec<Option<Vec<u64>>> =
                    (0..len).map(|row| masks.row(row).map(<[u64]>::to_vec)).collect();
                let first = first.get_or_insert_with(|| all.clone());
                assert!(all == *first, "{width} {block} in pieces of {piece} on {cpu:?}");
            }
        }
        for (row, mask) in first.unwrap().iter().enumerate() {
            let whole = (row + 1) / block;
            assert_eq!(mask.is_some(), whole > keep, "row {row}");
            let Some(mask) = mask else { continue };
            let score = |block: usize| -> f64 {
                let fit = |head: usize| {
                    let q = &q[(row * heads + head) * width..][..width];
                    let fit: f64 = q.iter().zip(&exact[block]).map(|(q, k)| f64::from(*q) * k).sum();
                    let weight = if gates { 0.1 * f64::from(head_weights[row * heads + head]) } else { 1.0 };
                    weight * fit.max(0.0)
                };
                (0..heads).map(fit).sum()
            };
            let is_seen = |position: usize| mask[position / PAGE] >> (position % PAGE) & 1 == 1;
            let chosen: Vec<usize> = (0..whole).filter(|&at| is_seen(at * block)).collect();
            assert_eq!(chosen.len(), keep, "row {row}");
            let worst = chosen.iter().map(|&at| score(at)).fold(f64::INFINITY, f64::min);
            for at in (0..whole).filter(|at| !chosen.contains(at)) {
                assert!(score(at) < worst + 1e-3, "row {row} leaves out block {at}");
            }
            for position in 0..PAGE * mask.len() {
                let expected = match position < whole * block {
                    true => chosen.contains(&(position / block)),
                    false => position <= row,
                };
                assert_eq!(is_seen(position), expected, "row {row} position {position}");
            }
        }
    }
}

#[test]
fn of_equal_blocks_the_first_are_chosen() {
    let shape = IndexShape::new(16, false, 8).unwrap();
    // Keys that no query fits: all scores are 0.
    let values = vec![-1.0; 2 * shape.page_len()];
    let cache = IndexLayer::new(shape, &values).unwrap();
    let query =
        IndexQuery { q: &[1.0; 16], heads: 1, weights: None, scale: 1.0, keep: 3, seen: Seen::Positions };
    let row = RowView { pages: &[1, 0], len: 101, mask: None };
    for cpu in cpus() {
        let mut masks = Masks::default();
        cpu.index_select(&query, &cache, &[row], &mut masks, Candidates::None).unwrap();
        assert_eq!(masks.row(0), Some(&[0x00ff_ffff, 0x1f << 32][..]));
    }
}

#[test]
fn a_cut_inside_a_block_makes_its_key_anew() {
    let mut rng = Rng::new(4);
    let seq = Sequence::new(&mut rng, 16, false, 8, 12);
    let weights = Weights::new(&mut rng, 16, 8);
    let pooling = weights.pooling(false);
    let cpu = cpus().remove(0);
    let mut values = seq.append(&cpu, &pooling, 12);
    let other = rng.normals(6 * 16);
    // Positions 2 to 7 again, with other keys.
    let slots: Vec<RowSlot> = (2..8).map(|position| seq.slot(position)).collect();
    let mut cache = IndexLayerMut::new(seq.shape, &mut values).unwrap();
    cpu.index_append((&mut other.clone(), None), &pooling, &mut cache, &slots, &[2, 3, 4, 5, 6, 7]).unwrap();
    let mut expected = Sequence { keys: seq.keys.clone(), pages: seq.pages.clone(), ..seq };
    expected.keys[2 * 16..8 * 16].copy_from_slice(&other);
    let fresh = expected.append(&cpu, &pooling, 1);
    let key = |values: &[f32]| IndexLayer::new(expected.shape, values).unwrap().key(&[0], 0).to_vec();
    assert_eq!(bits(&key(&values)), bits(&key(&fresh)));
}

#[test]
fn bad_calls_are_refused() {
    assert!(IndexShape::new(24, false, 4).is_err());
    assert!(IndexShape::new(0, false, 4).is_err());
    assert!(IndexShape::new(16, false, 5).is_err());
    assert!(IndexShape::new(16, false, 0).is_err());
    let shape = IndexShape::new(16, true, 4).unwrap();
    let mut values = vec![0.0; shape.page_len()];
    assert!(IndexLayer::new(shape, &values[1..]).is_err());
    let cpu = cpus().remove(0);
    let (gain, bias, gate_bias) = (vec![1.0; 16], vec![0.0; 16], vec![0.0; 64]);
    let norm = LayerNorm { gain: &gain, bias: &bias, eps: 1e-6 };
    let pooling = Pooling::Softmax { norm, bias: &gate_bias };
    let mut append =
        |keys: usize, gates: Option<&[f32]>, page: u32, positions: &[u32], pooling: &Pooling<'_>| {
            let mut cache = IndexLayerMut::new(shape, &mut values).unwrap();
            let slots = [RowSlot { page, offset: 3 }];
            cpu.index_append((&mut vec![0.0; keys], gates), pooling, &mut cache, &slots, positions)
        };
    let gates = [0.0; 16];
    append(16, Some(&gates), 0, &[3], &pooling).unwrap();
    assert!(append(15, Some(&gates), 0, &[3], &pooling).is_err());
    assert!(append(16, None, 0, &[3], &pooling).is_err());
    assert!(append(16, Some(&gates), 1, &[3], &pooling).is_err());
    assert!(append(16, Some(&gates), 0, &[], &pooling).is_err());
    let short = Pooling::Softmax { norm, bias: &gate_bias[1..] };
    assert!(append(16, Some(&gates), 0, &[3], &short).is_err());
    let cache = IndexLayer::new(shape, &values).unwrap();
    let query =
        IndexQuery { q: &[0.0; 16], heads: 1, weights: None, scale: 1.0, keep: 1, seen: Seen::Positions };
    let row = RowView { pages: &[0], len: 9, mask: None };
    let mut masks = Masks::default();
    cpu.index_select(&query, &cache, &[row], &mut masks, Candidates::None).unwrap();
    assert!(
        cpu.index_select(&query, &cache, &[RowView { pages: &[7], ..row }], &mut masks, Candidates::None)
            .is_err()
    );
    assert!(
        cpu.index_select(&query, &cache, &[RowView { len: 65, ..row }], &mut masks, Candidates::None)
            .is_err()
    );
    assert!(
        cpu.index_select(
            &IndexQuery { q: &[0.0; 15], ..query },
            &cache,
            &[row],
            &mut masks,
            Candidates::None
        )
        .is_err()
    );
    let query = IndexQuery { weights: Some(&[1.0; 2]), ..query };
    assert!(cpu.index_select(&query, &cache, &[row], &mut masks, Candidates::None).is_err());
}

/// Keys that come once a block: they are normed and turned as at the block's first position, and stand at its last.
#[test]
fn keys_that_were_made() {
    let mut rng = Rng::new(8);
    let (width, block, len, keep) = (32, 4, 150, 6);
    let shape = IndexShape::of_blocks(width, block).unwrap();
    assert_eq!(shape.page_len(), 16 * width);
    let pages = [1, 2, 0];
    let (gain, rope) = (rng.normals(width), RopeSpec::new(Pairs::Norm, 16, 10_000.0));
    let pooling = Pooling::Made { norm: Some(Norm { gain: &gain, eps: 1e-6 }), rope: &rope, rope_first: 16 };
    let keys = rng.normals(len * width);
    let slots: Vec<RowSlot> =
        (0..len).map(|at| RowSlot { page: pages[at / PAGE], offset: (at % PAGE) as u32 }).collect();
    let positions: Vec<u32> = (0..len as u32).collect();
    let rows: Vec<RowView<'_>> =
        (1..=len).map(|len| RowView { pages: &pages, len: len as u32, mask: None }).collect();
    let q = rng.normals(len * 2 * width);
    let query = IndexQuery { q: &q, heads: 2, weights: None, scale: 1.0, keep, seen: Seen::Ends };
    let mut values = vec![f32::NAN; 3 * shape.page_len()];
    let cpu = cpus().remove(0);
    for part in [0..1, 1..70, 70..len] {
        let mut keys = keys[part.start * width..part.end * width].to_vec();
        let mut cache = IndexLayerMut::new(shape, &mut values).unwrap();
        cpu.index_append((&mut keys, None), &pooling, &mut cache, &slots[part.clone()], &positions[part])
            .unwrap();
    }
    let cache = IndexLayer::new(shape, &values).unwrap();
    for at in 0..len / block {
        let raw = &keys[(at * block + block - 1) * width..][..width];
        let mean = raw.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / width as f64;
        let mut key: Vec<f64> = raw
            .iter()
            .zip(&gain)
            .map(|(x, gain)| f64::from(*x) / (mean + 1e-6).sqrt() * f64::from(*gain))
            .collect();
        for pair in 0..8 {
            let (s, c) = ((at * block) as f64 * 10_000f64.powf(-2.0 * pair as f64 / 16.0)).sin_cos();
            let (a, b) = (key[16 + 2 * pair], key[17 + 2 * pair]);
            (key[16 + 2 * pair], key[17 + 2 * pair]) = (a * c - b * s, a * s + b * c);
        }
        for (found, exact) in cache.key(&pages, at).iter().zip(key) {
            assert!((f64::from(*found) - exact).abs() < 4e-6, "block {at}: {found} {exact}");
        }
    }
    let mut masks = Masks::default();
    cpu.index_select(&query, &cache, &rows, &mut masks, Candidates::None).unwrap();
    for row in 0..len {
        let mask = masks.row(row).expect("blocks of four positions stand at the last");
        let seen: Vec<usize> =
            (0..64 * mask.len()).filter(|at| mask[at / 64] >> (at % 64) & 1 == 1).collect();
        assert_eq!(seen.len(), ((row + 1) / block).min(keep), "row {row}");
        assert!(seen.iter().all(|at| at % block == block - 1 && *at <= row), "row {row}: {seen:?}");
    }
    let mut ends = Masks::default();
    cpu.group_ends(block, &rows, &mut ends);
    assert_eq!(ends.row(20), masks.row(20), "few blocks are all seen");
    cpu.group_ends(128, &rows, &mut ends);
    assert_eq!(ends.row(126), Some(&[0, 0][..]));
    assert_eq!(ends.row(127), Some(&[0, 1 << 63][..]));
    let raw = Pooling::Mean { norm: Norm { gain: &gain, eps: 1e-6 }, rope: &rope };
    let mut cache = IndexLayerMut::new(shape, &mut values).unwrap();
    let error = cpu.index_append((&mut keys[..width].to_vec(), None), &raw, &mut cache, &slots[..1], &[0]);
    assert!(matches!(error, Err(KernelError::Shape { .. })));
}

/// Spans of blocks to which later choices are limited, against a plain program with ties and the newest span.
#[test]
fn candidates_limit_later_choices() {
    let mut rng = Rng::new(9);
    let (width, len, size, spans, keep) = (16, 300, 3, 5, 7);
    let shape = IndexShape::of_blocks(width, 1).unwrap();
    let pages: Vec<u32> = (0..5).collect();
    // Keys of few values, so that scores are often equal.
    let values: Vec<f32> = (0..5 * shape.page_len()).map(|_| rng.below(3) as f32 - 1.0).collect();
    let cache = IndexLayer::new(shape, &values).unwrap();
    let rows: Vec<RowView<'_>> =
        (1..=len).map(|len| RowView { pages: &pages, len: len as u32, mask: None }).collect();
    let some = |rng: &mut Rng| (0..len * width).map(|_| rng.below(3) as f32 - 1.0).collect::<Vec<f32>>();
    let (first, second) = (some(&mut rng), some(&mut rng));
    let ask = |q| IndexQuery { q, heads: 1, weights: None, scale: 1.0, keep, seen: Seen::Ends };
    let score = |q: &[f32], row: usize, at: usize| -> f32 {
        let fit = |i: usize| q[row * width + i] * values[at * width + i];
        (0..width).map(fit).sum::<f32>().max(0.0)
    };
    for cpu in cpus() {
        let (mut masks, mut found) = (Masks::default(), Masks::default());
        let make = Candidates::Make { spans: &mut found, size, keep: spans };
        cpu.index_select(&ask(&first), &cache, &rows, &mut masks, make).unwrap();
        let plain = masks.row(len - 1).unwrap().to_vec();
        cpu.index_select(&ask(&first), &cache, &rows, &mut masks, Candidates::None).unwrap();
        assert_eq!(masks.row(len - 1), Some(&plain[..]), "who makes candidates is not limited");
        let limit = Candidates::Use { spans: &found, size };
        cpu.index_select(&ask(&second), &cache, &rows, &mut masks, limit).unwrap();
        let mut limited = 0;
        for row in 0..len {
            let count = (row + 1).div_ceil(size);
            let most = |span: usize| {
                let of = span * size..(row + 1).min((span + 1) * size);
                of.map(|at| score(&first, row, at)).fold(f32::NEG_INFINITY, f32::max)
            };
            let mut order: Vec<usize> = (0..count).collect();
            let newest = |span: usize| span + 1 == count;
            order.sort_by(|&a, &b| {
                newest(b).cmp(&newest(a)).then(most(b).total_cmp(&most(a))).then(a.cmp(&b))
            });
            order.truncate(spans);
            let mut allowed: Vec<usize> = (0..=row).filter(|at| order.contains(&(at / size))).collect();
            if row < keep {
                assert_eq!(masks.row(row), None);
                continue;
            }
            allowed
                .sort_by(|&a, &b| score(&second, row, b).total_cmp(&score(&second, row, a)).then(a.cmp(&b)));
            allowed.truncate(keep);
            allowed.sort_unstable();
            let mask = masks.row(row).unwrap();
            let seen: Vec<usize> = (0..=row).filter(|at| mask[at / 64] >> (at % 64) & 1 == 1).collect();
            assert_eq!(seen, allowed, "row {row}");
            limited += usize::from(count > spans);
        }
        assert!(limited > 200);
    }
}
