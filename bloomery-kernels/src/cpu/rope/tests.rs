//! Rotation against double precision, and the cache read back by its documented layout.

use half::f16;

use super::super::kv::{KvLayer, KvType};
use super::super::testing::{Rng, cpus};
use super::*;

/// The key and value of one slot as the layout in `kv` says.
fn read(cache: &KvLayer<'_>, head: usize, slot: RowSlot) -> (Vec<f32>, Vec<f32>) {
    let shape = cache.shape;
    let part = slot.page as usize * shape.heads() + head;
    let offset = slot.offset as usize;
    let element = |bytes: &[u8], kind, dim: usize, index: usize, scale: usize| match kind {
        KvType::F32 => f32::from_ne_bytes(bytes[4 * index..][..4].try_into().unwrap()),
        KvType::F16 => f16::from_ne_bytes(bytes[2 * index..][..2].try_into().unwrap()).to_f32(),
        KvType::Q8_0 => {
            let scale = f16::from_ne_bytes(bytes[64 * dim + 2 * scale..][..2].try_into().unwrap());
            scale.to_f32() * f32::from(bytes[index] as i8)
        }
    };
    let (dim, kind) = (shape.key_dim(), shape.key_type());
    let keys = &cache.keys[part * shape.key_head_bytes()..][..shape.key_head_bytes()];
    let (block, lane) = (offset / 16, offset % 16);
    let key = (0..dim).map(|d| {
        element(keys, kind, dim, (block * dim + d) * 16 + lane, (block * (dim / 32) + d / 32) * 16 + lane)
    });
    let (dim, kind) = (shape.value_dim(), shape.value_type());
    let values = &cache.values[part * shape.value_head_bytes()..][..shape.value_head_bytes()];
    let value = (0..dim).map(|d| element(values, kind, dim, offset * dim + d, d / 32 * 64 + offset));
    (key.collect(), value.collect())
}

/// The rotated head in double precision; angles from `exp` of logarithms, not from powers.
fn turned_from(first: usize, spec: &RopeSpec, position: u32, head: &[f64]) -> Vec<f64> {
    [&head[..first], &turned(spec, position, &head[first..])].concat()
}

/// The same with the turning part in front.
fn turned(spec: &RopeSpec, position: u32, head: &[f64]) -> Vec<f64> {
    let (mut out, half) = (head.to_vec(), spec.rotary / 2);
    for m in 0..half {
        let (i, j) = if spec.pairs == Pairs::Neox { (m, m + half) } else { (2 * m, 2 * m + 1) };
        let frequency = (-2.0 * m as f64 / spec.rotary as f64 * f64::from(spec.base).ln()).exp();
        let frequency =
            frequency * f64::from(spec.freq_scale) / f64::from(spec.factors.get(m).copied().unwrap_or(1.0));
        let (s, c) = (f64::from(position) * frequency).sin_cos();
        let a = f64::from(spec.attn_factor);
        (out[i], out[j]) = (a * (head[i] * c - head[j] * s), a * (head[j] * c + head[i] * s));
    }
    out
}

fn normed(head: &[f32], norm: Option<Norm<'_>>) -> Vec<f64> {
    let mean = head.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / head.len() as f64;
    let factor = |norm: Norm<'_>, i: usize| f64::from(norm.gain[i]) / (mean + f64::from(norm.eps)).sqrt();
    head.iter().enumerate().map(|(i, &x)| f64::from(x) * norm.map_or(1.0, |n| factor(n, i))).collect()
}

fn kinds() -> [KvType; 3] {
    [KvType::F32, KvType::F16, KvType::Q8_0]
}

#[test]
fn rotates_norms_and_appends() {
    let (heads, kv_heads, pages) = (4, 2, 3);
    for (case, dim) in [32, 64, 96, 128, 256].into_iter().enumerate() {
        for rows in [1, 2, 7, 33] {
            for kind in kinds() {
                let mut rng = Rng::new((dim * rows) as u64);
                let mut spec = RopeSpec::new([Pairs::Neox, Pairs::Norm][(case + rows) % 2], dim, 1e6);
                if rows == 2 {
                    spec.rotary = dim / 4;
                    spec.factors = (0..dim / 8).map(|m| 1.0 + m as f32).collect();
                    spec.freq_scale = 0.25;
                    spec.attn_factor = 1.25;
                }
                let positions: Vec<u32> = (0..rows).map(|_| rng.below(1 << 20) as u32).collect();
                let mut slots: Vec<RowSlot> =
                    (0..64 * pages as u32).map(|i| RowSlot { page: i % 3, offset: i / 3 }).collect();
                (0..rows).for_each(|i| slots.swap(i, i + rng.below(64 * pages - i)));
                slots.truncate(rows);
                let (q, k) = (rng.normals(rows * heads * dim), rng.normals(rows * kv_heads * dim));
                let v = rng.normals(rows * kv_heads * (dim + 32));
                let (q_gain, k_gain) = (rng.normals(dim), rng.normals(dim));
                let table = RopeTable::new(&spec, &positions).unwrap();
                let mut head_spec = HeadSpec::rope(&table);
                if rows != 7 {
                    let norm = |gain| Norm { gain, eps: 1e-6 };
                    head_spec = head_spec.with_norms(norm(&q_gain), norm(&k_gain));
                }
                if rows == 2 && case % 2 == 1 {
                    head_spec.rope_first = dim - spec.rotary;
                }
                let shape = KvShape::new(kv_heads, (dim, kind), (dim + 32, kind)).unwrap();
                let mut expected = None;
                for cpu in cpus() {
                    let (mut q_out, mut k_out) = (q.clone(), k.clone());
                    let mut keys = vec![0; pages * shape.key_page_bytes()];
                    let mut values = vec![0; pages * shape.value_page_bytes()];
                    let mut cache = KvLayerMut::new(shape, &mut keys, &mut values).unwrap();
                    cpu.rope_append(&mut q_out, &mut k_out, &v, &head_spec, &mut cache, &slots).unwrap();
                    if expected.is_none() {
                        let cache = cache.view();
                        for row in 0..rows {
                            for (from, to, norm) in
                                [(&q, &q_out, head_spec.q_norm), (&k, &k_out, head_spec.k_norm)]
                            {
                                let width = from.len() / rows;
                                let both = from[row * width..(row + 1) * width]
                                    .chunks(dim)
                                    .zip(to[row * width..(row + 1) * width].chunks(dim));
                                for (from, to) in both {
                                    let first = head_spec.rope_first;
                                    let normed = normed(from, norm);
                                    let exact = turned_from(first, &spec, positions[row], &normed);
                                    let size = exact.iter().fold(0.0_f64, |a, x| a.max(x.abs()));
                                    for (&got, exact) in to.iter().zip(exact) {
                                        // Norm: (dim / 16 + 6) / 2 + 4 roundings; rotation: 2 of the table, 3 of
                                        // the sum, on two terms of at most the largest value.
                                        let steps = (dim / 16 + 6) as f64 / 2.0 + 4.0 + 10.0;
                                        let bound = steps * size * 2.0 * f64::from(f32::EPSILON);
                                        assert!((f64::from(got) - exact).abs() <= bound, "{got} {exact}");
                                    }
                                }
                            }
                            for head in 0..kv_heads {
                                let (key, value) = read(&cache, head, slots[row]);
                                let index = row * kv_heads + head;
                                stored(&k_out[index * dim..][..dim], &key, kind);
                                stored(&v[index * (dim + 32)..][..dim + 32], &value, kind);
                            }
                        }
                    }
                    let all = (q_out, k_out, keys, values);
                    assert!(*expected.get_or_insert_with(|| all.clone()) == all, "{dim} {rows} {cpu:?}");
                }
            }
        }
    }
}

/// Checks what a cache of `kind` holds of `exact`.
fn stored(exact: &[f32], got: &[f32], kind: KvType) {
    for (exact, got) in exact.chunks(32).zip(got.chunks(32)) {
        let largest = exact.iter().fold(0.0_f32, |a, x| a.max(x.abs()));
        for (&exact, &got) in exact.iter().zip(got) {
            match kind {
                KvType::F32 => assert_eq!(exact, got),
                KvType::F16 => assert_eq!(f16::from_f32(exact).to_f32(), got),
                // Half a step, and the scale's own rounding to 11 bits.
                KvType::Q8_0 => {
                    assert!((exact - got).abs() <= largest * (0.501 / 127.0 + 1.0 / 2048.0), "{exact} {got}");
                }
            }
        }
    }
}

#[test]
fn yarn_frequencies_are_the_published_ones() {
    let mut spec = RopeSpec::new(Pairs::Norm, 64, 10_000.0);
    spec.freq_scale = 1.0 / 40.0;
    spec.yarn = Some(Yarn { ext_factor: 1.0, beta_fast: 32.0, beta_slow: 1.0, original_context: 4096 });
    let got = spec.frequencies().unwrap();
    let published = [
        (0, 1.0),
        (1, 0.749_894_21),
        (10, 0.056_234_13),
        (15, 8.334_509_0e-3),
        (23, 3.333_803_6e-5),
        (31, 3.333_803_6e-6),
    ];
    for (m, exact) in published {
        assert!((got[m] / exact - 1.0_f64).abs() < 1e-7, "{m}: {} {exact}", got[m]);
    }
    assert!((RopeSpec::yarn_magnitude(40.0) - 1.368_887_9).abs() < 1e-6);
}

#[test]
fn of_rows_with_one_slot_the_last_stays_and_bad_calls_change_nothing() {
    let shape = KvShape::new(2, (32, KvType::F32), (32, KvType::F32)).unwrap();
    let (mut keys, mut values) = (vec![0; shape.key_page_bytes()], vec![0; shape.value_page_bytes()]);
    let mut cache = KvLayerMut::new(shape, &mut keys, &mut values).unwrap();
    let slot = RowSlot { page: 0, offset: 5 };
    let k: Vec<f32> = (0..3 * 64).map(|i| i as f32).collect();
    let spec = HeadSpec::default();
    for cpu in cpus() {
        cpu.rope_append(&mut [], &mut k.clone(), &k, &spec, &mut cache, &[slot; 3]).unwrap();
        assert_eq!(read(&cache.view(), 1, slot), (k[160..192].to_vec(), k[160..192].to_vec()));
        for (page, offset) in [(1, 0), (0, 64)] {
            let slots = [slot, RowSlot { page, offset }];
            let error =
                cpu.rope_append(&mut [], &mut k[..128].to_vec(), &k[..128], &spec, &mut cache, &slots);
            assert!(matches!(error, Err(KernelError::OutOfRange { .. })));
        }
        assert!(cpu.rope_append(&mut [0.0; 5], &mut k.clone(), &k, &spec, &mut cache, &[slot; 3]).is_err());
        assert!(cpu.rope_append(&mut [], &mut k.clone(), &k[1..], &spec, &mut cache, &[slot; 3]).is_err());
        let table = RopeTable::new(&RopeSpec::new(Pairs::Neox, 32, 1e4), &[1]).unwrap();
        let short = HeadSpec::rope(&table);
        assert!(cpu.rope_append(&mut [], &mut k.clone(), &k, &short, &mut cache, &[slot; 3]).is_err());
        let table = RopeTable::new(&RopeSpec::new(Pairs::Neox, 16, 1e4), &[1; 3]).unwrap();
        let mut late = HeadSpec::rope(&table);
        late.rope_first = 17;
        let error = cpu.rope_append(&mut [], &mut k.clone(), &k, &late, &mut cache, &[slot; 3]);
        assert!(matches!(error, Err(KernelError::Shape { .. })));
    }
    assert_eq!(read(&cache.view(), 1, slot).0, k[160..192]);
    assert!(RopeTable::new(&RopeSpec::new(Pairs::Neox, 31, 1e4), &[1]).is_err());
    assert!(KvShape::new(1, (40, KvType::F16), (32, KvType::F16)).is_ok());
    assert!(KvShape::new(1, (44, KvType::F16), (32, KvType::F16)).is_err());
    assert!(KvShape::new(1, (32, KvType::F16), (40, KvType::F16)).is_err());
    for dim in [0, 8, 24, 80] {
        assert!(KvShape::new(2, (dim, KvType::Q8_0), (32, KvType::F16)).is_err());
    }
    assert!(KvShape::new(2, (80, KvType::F16), (80, KvType::F32)).is_ok());
}

#[test]
fn latents_are_normed_turned_and_appended() {
    for (latent, rotary, heads) in [(32, 8, 4), (256, 32, 3), (512, 64, 16)] {
        let dim = latent + rotary;
        let pairs = if heads == 3 { Pairs::Neox } else { Pairs::Norm };
        let spec = RopeSpec::new(pairs, rotary, 1e4);
        for (rows, stride) in [(1, 1), (2, 64), (7, 1), (70, 1), (70, 65)] {
            for kind in kinds().into_iter().filter(|&kind| kind != KvType::Q8_0 || dim % 32 == 0) {
                let mut rng = Rng::new((dim + rows) as u64);
                let (q, kv) = (rng.normals(rows * heads * dim), rng.normals(rows * dim));
                let gain = rng.normals(latent);
                let norm = Norm { gain: &gain, eps: 1e-6 };
                let positions: Vec<u32> = (0..rows).map(|_| rng.below(1 << 16) as u32).collect();
                let table = RopeTable::new(&spec, &positions).unwrap();
                // A stride of 65 comes back to pages that other rows have been in.
                let slot = |row: usize| (row * stride + 60) % (3 * PAGE);
                let slots: Vec<RowSlot> = (0..rows)
                    .map(|row| RowSlot { page: (slot(row) / PAGE) as u32, offset: (slot(row) % PAGE) as u32 })
                    .collect();
                let shape = KvShape::new(1, (dim, kind), (latent, kind)).unwrap();
                let mut expected = None;
                for cpu in cpus() {
                    let (mut q_out, mut kv_out) = (q.clone(), kv.clone());
                    let mut keys = vec![0; 3 * shape.key_page_bytes()];
                    let mut values = vec![0; 3 * shape.value_page_bytes()];
                    let mut cache = KvLayerMut::new(shape, &mut keys, &mut values).unwrap();
                    cpu.latent_append(&mut q_out, &mut kv_out, norm, &table, &mut cache, &slots).unwrap();
                    let all = (q_out, kv_out, keys, values);
                    assert!(*expected.get_or_insert_with(|| all.clone()) == all, "{dim} {rows} {cpu:?}");
                }
                let (q_out, kv_out, keys, values) = expected.unwrap();
                let cache = KvLayer::new(shape, &keys, &values).unwrap();
                let close = |got: &[f32], exact: &[f64]| {
                    let size = exact.iter().fold(0.0_f64, |a, x| a.max(x.abs()));
                    // As above: the norm's roundings and the rotation's.
                    let bound =
                        ((latent / 16 + 6) as f64 / 2.0 + 14.0) * size * 2.0 * f64::from(f32::EPSILON);
                    for (&got, exact) in got.iter().zip(exact) {
                        assert!((f64::from(got) - exact).abs() <= bound, "{got} {exact}");
                    }
                };
                for row in 0..rows {
                    for head in 0..heads {
                        let at = (row * heads + head) * dim;
                        let exact = normed(&q[at..at + dim], None);
                        close(&q_out[at..at + dim], &turned_from(latent, &spec, positions[row], &exact));
                    }
                    let kv = &kv[row * dim..(row + 1) * dim];
                    let exact = [normed(&kv[..latent], Some(norm)), normed(&kv[latent..], None)].concat();
                    let got = &kv_out[row * dim..(row + 1) * dim];
                    close(got, &turned_from(latent, &spec, positions[row], &exact));
                    let (key, value) = read(&cache, 0, slots[row]);
                    stored(got, &key, kind);
                    stored(&got[..latent], &value, kind);
                }
            }
        }
    }
}

#[test]
fn bad_latents_are_refused() {
    let cpu = cpus().remove(0);
    let slot = [RowSlot { page: 0, offset: 0 }];
    let run = |heads: usize, rotary: usize, q: usize, kv: usize, gain: usize, page: u32| {
        let shape = KvShape::new(heads, (40, KvType::F32), (32, KvType::F32)).unwrap();
        let (mut keys, mut values) = (vec![0; shape.key_page_bytes()], vec![0; shape.value_page_bytes()]);
        let mut cache = KvLayerMut::new(shape, &mut keys, &mut values).unwrap();
        let table = RopeTable::new(&RopeSpec::new(Pairs::Norm, rotary, 1e4), &[1]).unwrap();
        let (gain, slots) = (vec![1.0; gain], [RowSlot { page, ..slot[0] }]);
        let norm = Norm { gain: &gain, eps: 1e-6 };
        cpu.latent_append(&mut vec![0.0; q], &mut vec![0.0; kv], norm, &table, &mut cache, &slots)
    };
    assert!(run(1, 8, 80, 40, 32, 0).is_ok());
    assert!(matches!(run(2, 8, 80, 40, 32, 0), Err(KernelError::Shape { .. })));
    assert!(matches!(run(1, 10, 80, 40, 32, 0), Err(KernelError::Shape { .. })));
    for (q, kv, gain) in [(79, 40, 32), (80, 39, 32), (80, 40, 40)] {
        assert!(matches!(run(1, 8, q, kv, gain, 0), Err(KernelError::Length { .. })));
    }
    assert!(matches!(run(1, 8, 80, 40, 32, 1), Err(KernelError::OutOfRange { .. })));
}
