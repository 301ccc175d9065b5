//! Attention against double precision, and the promise that a row's bits depend on the row alone.

use super::super::kv::{KvLayerMut, KvShape, KvType, RowSlot};
use super::super::rope::HeadSpec;
use super::super::testing::{Rng, cpus};
use super::*;

/// A cache of one sequence whose pages lie in shuffled order.
struct Sequence {
    shape: KvShape,
    keys: Vec<u8>,
    values: Vec<u8>,
    pages: Vec<u32>,
    /// What was appended, `[position][head][dim]`.
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Sequence {
    fn new(rng: &mut Rng, shape: KvShape, positions: usize) -> Self {
        let count = positions.div_ceil(PAGE);
        let mut pages: Vec<u32> = (0..count as u32 + 2).collect();
        (0..count).for_each(|i| pages.swap(i, i + rng.below(count + 2 - i)));
        pages.truncate(count);
        let k = rng.normals(positions * shape.heads() * shape.key_dim());
        let v = rng.normals(positions * shape.heads() * shape.value_dim());
        // What nobody wrote must not matter: NaN in every type (f16 0xffff, int8 with NaN scales).
        let keys = vec![0xff; (count + 2) * shape.key_page_bytes()];
        let values = vec![0xff; (count + 2) * shape.value_page_bytes()];
        let mut all = Self { shape, keys, values, pages, k, v };
        all.append();
        all
    }

    fn append(&mut self) {
        let positions = self.v.len() / self.shape.heads() / self.shape.value_dim();
        let slots: Vec<RowSlot> = (0..positions)
            .map(|p| RowSlot { page: self.pages[p / PAGE], offset: (p % PAGE) as u32 })
            .collect();
        let mut cache = KvLayerMut::new(self.shape, &mut self.keys, &mut self.values).unwrap();
        let cpu = cpus().remove(0);
        cpu.rope_append(&mut [], &mut self.k, &self.v, &HeadSpec::default(), &mut cache, &slots).unwrap();
    }

    fn cache(&self) -> KvLayer<'_> {
        KvLayer::new(self.shape, &self.keys, &self.values).unwrap()
    }

    fn row(&self, len: usize) -> RowView<'_> {
        RowView { pages: &self.pages, len: len as u32, mask: None }
    }
}

/// One head of one row in double precision, from the values as the cache's type rounds them.
fn oracle(seq: &Sequence, spec: &AttentionSpec<'_>, q: &[f32], row: &RowView<'_>, head: usize) -> Vec<f64> {
    let shape = seq.shape;
    let kv = head / (spec.heads / shape.heads());
    let round = |x: &[f32], kind: KvType| -> Vec<f64> {
        match kind {
            KvType::F32 => x.iter().map(|&x| f64::from(x)).collect(),
            KvType::F16 => x.iter().map(|&x| f64::from(half::f16::from_f32(x))).collect(),
            KvType::Q8_0 => {
                let block = |x: &[f32]| -> Vec<f64> {
                    let step = x.iter().fold(0.0_f32, |a, x| a.max(x.abs())) / 127.0;
                    let scale = f64::from(half::f16::from_f32(step));
                    let quant = |&x: &f32| x.mul_add(1.0 / step, 12_582_912.0) - 12_582_912.0;
                    x.iter().map(|x| f64::from(quant(x)) * scale).collect()
                };
                x.chunks(32).flat_map(block).collect()
            }
        }
    };
    let is_seen = |p: &usize| row.seen(p / PAGE) >> (p % PAGE) & 1 == 1;
    let visible: Vec<usize> = row.visible(spec.window).filter(is_seen).collect();
    let scores: Vec<f64> = visible
        .iter()
        .map(|p| {
            let key = &seq.k[(p * shape.heads() + kv) * shape.key_dim()..][..shape.key_dim()];
            let key = round(key, shape.key_type());
            let score =
                key.iter().zip(q).map(|(k, &q)| k * f64::from(q)).sum::<f64>() * f64::from(spec.scale);
            spec.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
        })
        .collect();
    let sink = spec.sinks.map_or(f64::NEG_INFINITY, |sinks| f64::from(sinks[head]));
    let most = scores.iter().fold(sink, |a, &b| a.max(b));
    let total: f64 = scores.iter().map(|s| (s - most).exp()).sum::<f64>() + (sink - most).exp();
    let mut out = vec![0.0; shape.value_dim()];
    for (p, score) in visible.iter().zip(&scores) {
        let value = &seq.v[(p * shape.heads() + kv) * shape.value_dim()..][..shape.value_dim()];
        let weight = (score - most).exp() / total;
        out.iter_mut().zip(round(value, shape.value_type())).for_each(|(o, v)| *o += weight * v);
    }
    out
}

/// All rows in one call on every machine: equal bits, which are returned.
fn together(seq: &Sequence, spec: &AttentionSpec<'_>, q: &[f32], rows: &[RowView<'_>]) -> Vec<f32> {
    let mut expected: Option<Vec<f32>> = None;
    let mut scratch = AttentionScratch::default();
    for cpu in cpus() {
        let mut out = vec![f32::NAN; rows.len() * spec.heads * seq.shape.value_dim()];
        cpu.attention(q, spec, &seq.cache(), rows, &mut out, &mut scratch).unwrap();
        let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let expected = expected.get_or_insert_with(|| out.clone());
        assert_eq!(bits(&out), bits(expected), "{} rows on {cpu:?}", rows.len());
    }
    expected.unwrap()
}

/// Checks rows of lengths `lens`: against the oracle, and together = alone.
fn verify(rng: &mut Rng, seq: &Sequence, spec: &AttentionSpec<'_>, lens: &[usize]) {
    let (key_dim, heads) = (seq.shape.key_dim(), spec.heads);
    let q = rng.normals(lens.len() * heads * key_dim);
    let rows: Vec<RowView<'_>> = lens.iter().map(|&len| seq.row(len)).collect();
    verify_rows(seq, spec, &q, &rows);
}

/// The same of any rows.
fn verify_rows(seq: &Sequence, spec: &AttentionSpec<'_>, q: &[f32], rows: &[RowView<'_>]) {
    let (key_dim, dim, heads) = (seq.shape.key_dim(), seq.shape.value_dim(), spec.heads);
    let all = together(seq, spec, q, rows);
    for (i, row) in rows.iter().enumerate() {
        let width = heads * key_dim;
        let q = &q[i * width..(i + 1) * width];
        let got = &all[i * heads * dim..(i + 1) * heads * dim];
        if i % 5 == 0 {
            let alone = together(seq, spec, q, &[*row]);
            let same = alone.iter().zip(got).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "row {i} alone, length {}", row.len);
        }
        if i % 3 != 0 && i + 1 != rows.len() {
            continue;
        }
        for head in 0..heads {
            let exact = oracle(seq, spec, &q[head * key_dim..][..key_dim], row, head);
            let got = &got[head * dim..][..dim];
            // Scores of unit variance times scale are sums of `key_dim` fused terms; an error e of a score moves
            // weights by 2 e. Weighted sums have at most 512 + 2 len / 64 roundings of values below 3.5.
            let unit = f64::from(f32::EPSILON) / 2.0;
            let score = key_dim as f64 * key_dim as f64 * f64::from(spec.scale) * unit + 4e-7;
            let steps = (row.len as f64).min(512.0) + f64::from(row.len) / 32.0 + 16.0;
            let bound = 3.5 * (2.0 * score + steps * unit);
            for (got, exact) in got.iter().zip(exact) {
                let off = (f64::from(*got) - exact).abs();
                assert!(off <= bound, "row {i} of length {}, head {head}: {got} {exact} > {bound}", row.len);
            }
        }
    }
}

fn shape(kv_heads: usize, dim: usize, kind: KvType) -> KvShape {
    KvShape::new(kv_heads, (dim, kind), (dim, kind)).unwrap()
}

#[test]
fn lengths_at_the_edges() {
    let mut rng = Rng::new(1);
    for kind in [KvType::F32, KvType::F16, KvType::Q8_0] {
        for len in [1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1000] {
            let seq = Sequence::new(&mut rng, shape(2, 32, kind), len);
            verify(&mut rng, &seq, &AttentionSpec::new(4, 0.2), &[len]);
        }
    }
}

#[test]
fn numbers_of_rows_at_the_edges() {
    let mut rng = Rng::new(2);
    for rows in [1, 2, 3, 7, 8, 9, 31, 32, 33] {
        let seq = Sequence::new(&mut rng, shape(1, 64, KvType::F16), 600);
        let lens: Vec<usize> = (600 - rows + 1..=600).collect();
        verify(&mut rng, &seq, &AttentionSpec::new(2, 0.125), &lens);
        // A prompt from its first position on.
        let lens: Vec<usize> = (1..=rows).collect();
        verify(&mut rng, &seq, &AttentionSpec::new(2, 0.125), &lens);
    }
}

#[test]
fn head_widths_and_groups() {
    let mut rng = Rng::new(3);
    for dim in [16, 32, 64, 80, 96, 128, 256] {
        for group in [1, 2, 4, 7, 8, 17] {
            for kind in [KvType::F32, KvType::F16, KvType::Q8_0] {
                if kind == KvType::Q8_0 && dim % 32 != 0 {
                    continue;
                }
                let seq = Sequence::new(&mut rng, shape(2, dim, kind), 70);
                let spec = AttentionSpec::new(2 * group, (dim as f32).sqrt().recip());
                verify(&mut rng, &seq, &spec, &[66, 67, 70]);
            }
        }
    }
}

#[test]
fn windows_caps_and_sinks() {
    let mut rng = Rng::new(4);
    let seq = Sequence::new(&mut rng, shape(2, 64, KvType::F16), 1300);
    let sinks = [0.5, -1.0, 3.0, 0.0];
    for window in [1, 63, 65, 512, 2000] {
        let mut spec = AttentionSpec::new(4, 0.125);
        spec.window = Some(window);
        verify(&mut rng, &seq, &spec, &(1275..=1284).collect::<Vec<_>>());
        spec.softcap = Some(5.0);
        verify(&mut rng, &seq, &spec, &[1, 2, 64, 65, 66]);
        spec.sinks = Some(&sinks);
        verify(&mut rng, &seq, &spec, &[3, 1300]);
    }
}

/// Blocks of four positions, some pages without any, and beside rows that see everything.
#[test]
fn masks_hide_positions() {
    let mut rng = Rng::new(10);
    for kind in [KvType::F32, KvType::F16, KvType::Q8_0] {
        let seq = Sequence::new(&mut rng, shape(2, 32, kind), 700);
        let lens: Vec<usize> = (660..=700).chain([64, 65]).collect();
        let masks: Vec<Vec<u64>> = lens
            .iter()
            .map(|&len| {
                let page = |page: usize| match rng.below(3) {
                    0 if (page + 1) * PAGE < len => 0,
                    _ => (0..16).filter(|_| rng.below(2) == 0).map(|block| 15 << (4 * block)).sum(),
                };
                let mut mask: Vec<u64> = (0..len.div_ceil(PAGE)).map(page).collect();
                mask[(len - 1) / PAGE] |= 1 << ((len - 1) % PAGE);
                mask
            })
            .collect();
        let mut rows: Vec<RowView<'_>> = lens.iter().map(|&len| seq.row(len)).collect();
        for (i, (row, mask)) in rows.iter_mut().zip(&masks).enumerate() {
            row.mask = (i % 4 != 3).then_some(&mask[..]);
        }
        let spec = AttentionSpec::new(4, 0.2);
        verify_rows(&seq, &spec, &rng.normals(rows.len() * 4 * 32), &rows);
        let windowed = AttentionSpec { window: Some(100), ..spec };
        verify_rows(&seq, &windowed, &rng.normals(rows.len() * 4 * 32), &rows);
    }
}

#[test]
fn keys_and_values_may_differ() {
    let mut rng = Rng::new(5);
    let shape = KvShape::new(1, (96, KvType::Q8_0), (64, KvType::F16)).unwrap();
    let seq = Sequence::new(&mut rng, shape, 200);
    verify(&mut rng, &seq, &AttentionSpec::new(5, 0.1), &[1, 64, 200]);
}

/// Latent attention: one key for all heads, wider than its value; and the widest plain heads with a window.
#[test]
fn latents_and_wide_heads() {
    let mut rng = Rng::new(9);
    for (key_dim, value_dim, heads) in [(576, 512, 16), (40, 32, 4), (288, 256, 4)] {
        for kind in [KvType::F32, KvType::F16, KvType::Q8_0] {
            if kind == KvType::Q8_0 && key_dim % 32 != 0 {
                continue;
            }
            let shape = KvShape::new(1, (key_dim, kind), (value_dim, kind)).unwrap();
            let seq = Sequence::new(&mut rng, shape, 200);
            let spec = AttentionSpec::new(heads, (key_dim as f32).sqrt().recip());
            verify(&mut rng, &seq, &spec, &[1]);
            verify(&mut rng, &seq, &spec, &[63, 64, 65, 66, 200]);
        }
    }
    for kind in [KvType::F32, KvType::F16, KvType::Q8_0] {
        let seq = Sequence::new(&mut rng, shape(2, 256, kind), 700);
        let mut spec = AttentionSpec::new(16, 0.0625);
        verify(&mut rng, &seq, &spec, &[1, 64, 700]);
        spec.window = Some(512);
        verify(&mut rng, &seq, &spec, &(690..=700).collect::<Vec<_>>());
    }
}

#[test]
fn rows_of_several_sequences() {
    let mut rng = Rng::new(6);
    let seq = Sequence::new(&mut rng, shape(2, 32, KvType::F16), 700);
    // Two sequences with a common prefix are two lists with the same pages.
    let fork = seq.pages.clone();
    let spec = AttentionSpec::new(4, 0.2);
    let q = rng.normals(6 * 4 * 32);
    let lens = [650, 651, 3, 700, 64, 65];
    let rows: Vec<RowView<'_>> = lens
        .iter()
        .enumerate()
        .map(|(i, &len)| RowView { pages: if i % 3 == 1 { &fork } else { &seq.pages }, len, mask: None })
        .collect();
    let all = together(&seq, &spec, &q, &rows);
    for i in 0..6 {
        assert_eq!(together(&seq, &spec, &q[i * 128..][..128], &rows[i..=i]), all[i * 128..][..128]);
    }
}

#[test]
fn large_scores_stay_finite() {
    let mut rng = Rng::new(7);
    let seq = Sequence::new(&mut rng, shape(1, 32, KvType::F32), 600);
    let q = rng.normals(32).iter().map(|x| x * 1e6).collect::<Vec<_>>();
    let out = together(&seq, &AttentionSpec::new(1, 1.0), &q, &[seq.row(600)]);
    assert!(out.iter().all(|x| x.is_finite()));
}

#[test]
fn bad_calls_are_refused() {
    let mut rng = Rng::new(8);
    let seq = Sequence::new(&mut rng, shape(2, 32, KvType::F16), 100);
    let mut scratch = AttentionScratch::default();
    let cpu = cpus().remove(0);
    let mut call = |heads: usize, q: usize, row: RowView<'_>, out: usize| {
        let spec = AttentionSpec::new(heads, 1.0);
        cpu.attention(&vec![0.0; q], &spec, &seq.cache(), &[row], &mut vec![0.0; out], &mut scratch)
    };
    assert!(call(4, 128, seq.row(100), 128).is_ok());
    assert!(matches!(call(3, 96, seq.row(100), 96), Err(KernelError::Shape { .. })));
    assert!(matches!(call(0, 0, seq.row(100), 0), Err(KernelError::Shape { .. })));
    assert!(matches!(call(4, 127, seq.row(100), 128), Err(KernelError::Length { .. })));
    assert!(matches!(call(4, 128, seq.row(100), 129), Err(KernelError::Length { .. })));
    assert!(matches!(call(4, 128, seq.row(0), 128), Err(KernelError::Shape { .. })));
    assert!(matches!(call(4, 128, seq.row(129), 128), Err(KernelError::OutOfRange { .. })));
    let bad = RowView { pages: &[0, 99], len: 65, mask: None };
    assert!(matches!(call(4, 128, bad, 128), Err(KernelError::OutOfRange { .. })));
    let short = RowView { mask: Some(&[1]), ..seq.row(65) };
    assert!(matches!(call(4, 128, short, 128), Err(KernelError::OutOfRange { .. })));
    let blind = RowView { mask: Some(&[0, 0]), ..seq.row(65) };
    assert!(matches!(call(4, 128, blind, 128), Err(KernelError::Shape { .. })));
}

/// What rows see in two parts, blended, is what they see at once; a part may be empty, or both but for the sinks.
#[test]
fn parts_blend_into_the_whole() {
    let mut rng = Rng::new(14);
    let seq = Sequence::new(&mut rng, shape(1, 64, KvType::F32), 700);
    let sinks: Vec<f32> = rng.normals(4);
    let spec = AttentionSpec { sinks: Some(&sinks), ..AttentionSpec::new(4, 0.125) };
    let lens = [1, 2, 64, 65, 300, 699, 700];
    let q = rng.normals(lens.len() * 4 * 64);
    let words: Vec<Vec<u64>> = lens.iter().map(|_| (0..11).map(|_| rng.next()).collect()).collect();
    let (none, all) = (vec![0; 11], vec![u64::MAX; 11]);
    let rest: Vec<Vec<u64>> = words.iter().map(|words| words.iter().map(|word| !word).collect()).collect();
    for cpu in cpus() {
        let mut scratch = AttentionScratch::default();
        let mut whole = vec![0.0; q.len()];
        let plain: Vec<RowView<'_>> = lens.iter().map(|&len| seq.row(len)).collect();
        cpu.attention(&q, &spec, &seq.cache(), &plain, &mut whole, &mut scratch).unwrap();
        let mut part = |mask: &dyn Fn(usize) -> Vec<u64>| {
            let masks: Vec<Vec<u64>> = (0..lens.len()).map(mask).collect();
            let views: Vec<RowView<'_>> =
                plain.iter().zip(&masks).map(|(row, mask)| RowView { mask: Some(mask), ..*row }).collect();
            let (mut out, mut sums) = (vec![f32::NAN; q.len()], vec![f32::NAN; lens.len() * 4]);
            let spec = AttentionSpec::new(4, 0.125);
            cpu.attention_part(&q, &spec, &seq.cache(), &views, (&mut out, &mut sums), &mut scratch).unwrap();
            (out, sums)
        };
        let pairs = [
            (part(&|row| words[row].clone()), part(&|row| rest[row].clone())),
            (part(&|_| none.clone()), part(&|_| all.clone())),
        ];
        for (a, b) in &pairs {
            let parts = [a, b].map(|(values, sums)| AttendedPart { values, sums });
            let mut out = vec![f32::NAN; q.len()];
            cpu.blend(parts, &sinks, 64, &mut out).unwrap();
            for (found, exact) in out.iter().zip(&whole) {
                assert!((found - exact).abs() < 4e-6, "{found} {exact} on {cpu:?}");
            }
        }
        let (values, sums) = part(&|_| none.clone());
        assert!(values.iter().all(|&x| x == 0.0) && sums.iter().all(|&sum| sum == f32::NEG_INFINITY));
        let empty = AttendedPart { values: &values, sums: &sums };
        let mut out = vec![f32::NAN; q.len()];
        cpu.blend([empty; 2], &sinks, 64, &mut out).unwrap();
        assert!(out.iter().all(|&x| x == 0.0));
        let (mut sums, mut scratch) = (vec![0.0; lens.len() * 4], AttentionScratch::default());
        let error = cpu.attention_part(&q, &spec, &seq.cache(), &plain, (&mut out, &mut sums), &mut scratch);
        assert!(matches!(error, Err(KernelError::Shape { .. })), "sinks belong to the whole");
    }
}
