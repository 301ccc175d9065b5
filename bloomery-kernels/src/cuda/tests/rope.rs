//! Norms and rotation against the CPU's, the cache against the definition of its layout.

use super::super::testing::{Place, places};
use super::super::{Buffer, KvCache, KvRows, Rope, RopeAngles, RopeAppend};
use super::paged::Sequences;
use crate::cpu::testing::{Rng, bits, cpus};
use crate::cpu::{HeadSpec, KvLayerMut, KvShape, KvType, Norm, Pairs, RopeSpec, RopeTable, RowSlot, Yarn};

fn specs() -> Vec<RopeSpec> {
    let yarn = Yarn { ext_factor: 1.0, beta_fast: 32.0, beta_slow: 1.0, original_context: 4096 };
    let mut extended = RopeSpec::new(Pairs::Neox, 128, 1e6);
    extended.yarn = Some(yarn);
    extended.freq_scale = 0.125;
    extended.attn_factor = RopeSpec::yarn_magnitude(8.0);
    let mut factors = RopeSpec::new(Pairs::Norm, 64, 500_000.0);
    factors.factors = (0..32).map(|i| 1.0 + i as f32 / 4.0).collect();
    vec![
        RopeSpec::new(Pairs::Neox, 128, 1e6),
        RopeSpec::new(Pairs::Norm, 128, 1e4),
        extended,
        factors,
        RopeSpec::new(Pairs::Neox, 32, 1e4),
        RopeSpec::new(Pairs::Neox, 256, 1e4),
    ]
}

#[test]
fn angles_are_good_at_any_position() {
    let positions = [0, 1, 255, 256, 257, 4095, 65_535, 100_000, 262_143];
    for spec in specs() {
        let angles = RopeAngles::new(&spec, 262_144).unwrap();
        let table = RopeTable::new(&spec, &positions).unwrap();
        let magnitude = f64::from(spec.attn_factor);
        for (row, position) in positions.iter().enumerate() {
            let (cosines, sines) = table.turns(row);
            for pair in 0..angles.half {
                let entry = |table: &[f32], row: u32| {
                    let at = 2 * (row as usize * angles.half + pair);
                    [table[at], table[at + 1]]
                };
                let [c, s] = entry(&angles.low, position % 256);
                let [high_c, high_s] = entry(&angles.high, position / 256);
                // As the kernel does.
                let cosine = c.mul_add(high_c, -(s * high_s));
                let sine = s.mul_add(high_c, c * high_s);
                for (got, expected) in [(cosine, cosines[pair]), (sine, sines[pair])] {
                    // Four table entries are off by 2^-25 each, weighted by a cosine and a sine (sqrt 2 each side); the
                    // product and the sum are rounded by 2^-25, and so is what is compared with.
                    let off = f64::from((got - expected).abs());
                    assert!(off <= 3e-7 * magnitude, "{spec:?} at {position}, pair {pair}: {off}");
                }
            }
        }
    }
}

struct Case {
    shape: KvCache,
    heads: usize,
    spec: Option<RopeSpec>,
    norms: bool,
    first: usize,
}

/// What the launch leaves: queries, pages of keys, pages of values.
fn run(
    place: &mut Place,
    case: &Case,
    cache: KvRows,
    x: [&[f32]; 3],
    gains: &[Vec<f32>; 2],
    angles: Option<&RopeAngles>,
) -> Vec<f32> {
    let [q, k, v] = x.map(|x| place.buffer(x));
    let gains: Vec<Buffer<f32>> = gains.iter().map(|gain| place.buffer(gain)).collect();
    let norm = |gain: &Buffer<f32>| case.norms.then(|| (gain.span(), 1e-6));
    let op = RopeAppend {
        q: q.span(),
        k: k.span(),
        v: v.span(),
        rows: cache.positions.len(),
        heads: case.heads,
        q_norm: norm(&gains[0]),
        k_norm: norm(&gains[1]),
        rope: angles.map(|angles| Rope {
            pairs: angles.pairs,
            half: angles.half,
            first: case.first,
            low: place.buffer(&angles.low).span(),
            high: place.buffer(&angles.high).span(),
        }),
        cache,
    };
    let launch = op.launch(place.info()).unwrap();
    place.run(&launch);
    place.read(&q)
}

#[test]
fn heads_are_the_cpus_and_pages_have_their_layout() {
    let mut place = places().remove(0);
    let cpu = cpus().remove(0);
    let mut cases = Vec::new();
    for (i, spec) in specs().into_iter().map(Some).chain([None]).enumerate() {
        let dim = spec.as_ref().map_or(96, |spec| spec.rotary).max(64 + 32 * (i % 2));
        for (j, kind) in [KvType::F16, KvType::Q8_0, KvType::F32].into_iter().enumerate() {
            let shape = KvCache::new(1 + i % 2, dim, 64, kind).unwrap();
            cases.push(Case { shape, heads: 3, spec: spec.clone(), norms: (i + j) % 2 == 0, first: 0 });
        }
    }
    let shape = KvCache::new(2, 80, 80, KvType::F16).unwrap();
    cases.push(Case {
        shape,
        heads: 14,
        spec: Some(RopeSpec::new(Pairs::Neox, 80, 1e4)),
        norms: true,
        first: 0,
    });
    for case in &cases {
        let shape = case.shape;
        let (kv, dim, value_dim) = (shape.kv_heads(), shape.key_dim(), shape.value_dim());
        let mut rng = Rng::new(dim as u64);
        let lens = [3, 66, 300];
        let mut sequences = Sequences::new(&mut rng, shape, &lens);
        let rows = [(0, 0), (0, 1), (0, 2), (1, 63), (1, 64), (1, 65), (2, 299)];
        let (q, k) = (rng.normals(rows.len() * case.heads * dim), rng.normals(rows.len() * kv * dim));
        let v = rng.normals(rows.len() * kv * value_dim);
        let gains = [rng.normals(dim), rng.normals(dim)];

        // The CPU's heads.
        let positions: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
        let table = case.spec.as_ref().map(|spec| RopeTable::new(spec, &positions).unwrap());
        let mut heads = table.as_ref().map_or_else(HeadSpec::default, HeadSpec::rope);
        if case.norms {
            let [q, k] = [&gains[0], &gains[1]].map(|gain| Norm { gain, eps: 1e-6 });
            heads = heads.with_norms(q, k);
        }
        let cpu_shape = KvShape::new(kv, (dim, KvType::F32), (value_dim, KvType::F32)).unwrap();
        let (mut keys, mut values) =
            (vec![0; cpu_shape.key_page_bytes()], vec![0; cpu_shape.value_page_bytes()]);
        let slots: Vec<RowSlot> = (0..rows.len()).map(|i| RowSlot { page: 0, offset: i as u32 }).collect();
        let (mut expected_q, mut expected_k) = (q.clone(), k.clone());
        let mut layer = KvLayerMut::new(cpu_shape, &mut keys, &mut values).unwrap();
        cpu.rope_append(&mut expected_q, &mut expected_k, &v, &heads, &mut layer, &slots).unwrap();

        // Pages without the rows, and what must be there with them.
        let angles = case.spec.as_ref().map(|spec| RopeAngles::new(spec, 512).unwrap());
        let (cache, pages) = sequences.buffers(&mut place, &rows);
        let got = run(&mut place, case, cache, [&q, &k, &v], &gains, angles.as_ref());
        let name = format!("{shape:?} {:?} {}", case.spec, case.norms);
        let largest = expected_q.iter().fold(0.0_f32, |a, x| a.max(x.abs()));
        for (i, (got, expected)) in got.iter().zip(&expected_q).enumerate() {
            // Two products of angles that are off by 3e-7, their roundings and the CPU's.
            assert!((got - expected).abs() <= 1.2e-6 * largest, "{name}: query {i}: {got} {expected}");
        }
        for (i, (s, position)) in rows.into_iter().enumerate() {
            sequences.k[s][position * kv * dim..][..kv * dim]
                .copy_from_slice(&expected_k[i * kv * dim..][..kv * dim]);
            let row = &v[i * kv * value_dim..][..kv * value_dim];
            sequences.v[s][position * kv * value_dim..][..kv * value_dim].copy_from_slice(row);
        }
        let [keys, values] = sequences.packed();
        let found: Vec<u8> = place.read(&pages[1]);
        let wrong: Vec<_> =
            found.iter().zip(&values).enumerate().filter(|(_, (a, b))| a != b).take(8).collect();
        assert!(wrong.is_empty(), "{name}: values {wrong:?}");
        near(shape, &place.read(&pages[0]), &keys, &name);
    }
}

/// Pages of keys but for the last bit of some values.
pub(super) fn near(shape: KvCache, got: &[u8], expected: &[u8], name: &str) {
    let values = |bytes: &[u8]| -> Vec<f32> {
        match shape.kind() {
            KvType::F32 => bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect(),
            KvType::F16 => {
                bytes.as_chunks().0.iter().map(|x| half::f16::from_le_bytes(*x).to_f32()).collect()
            }
            KvType::Q8_0 => bytes.iter().map(|x| f32::from(*x as i8)).collect(),
        }
    };
    let (mut others, count) = (0, expected.len());
    for (i, (got, expected)) in values(got).into_iter().zip(values(expected)).enumerate() {
        if got.to_bits() == expected.to_bits() {
            continue;
        }
        others += 1;
        let allowed = match shape.kind() {
            KvType::F32 => 8e-6,
            KvType::F16 => 1e-3 * expected.abs() + 8e-6,
            KvType::Q8_0 => 1.0,
        };
        assert!((got - expected).abs() <= allowed, "{name}: key {i}: {got} {expected}");
    }
    assert!(shape.kind() == KvType::F32 || others <= count / 500, "{name}: {others} of {count} bytes differ");
}

#[test]
fn what_turns_begins_anywhere() {
    let mut place = places().remove(0);
    for (pairs, first, rotary, norms) in
        [(Pairs::Norm, 64, 32, true), (Pairs::Neox, 32, 64, false), (Pairs::Neox, 0, 32, true)]
    {
        let shape = KvCache::new(1, 96, 64, KvType::F16).unwrap();
        let mut rng = Rng::new(first as u64);
        let sequences = Sequences::new(&mut rng, shape, &[300]);
        let spec = RopeSpec::new(pairs, rotary, 1e4);
        let angles = RopeAngles::new(&spec, 300).unwrap();
        let (cache, pages) = sequences.buffers(&mut place, &[(0, 299)]);
        let (x, v) = (rng.normals(96), rng.normals(64));
        let gains = [rng.normals(96), rng.normals(96)];
        // The whole head by itself, without turning.
        let case = Case { shape, heads: 1, spec: None, norms, first };
        let still = run(&mut place, &case, cache.clone(), [&x, &x, &v], &gains, None);
        let before: Vec<u8> = place.read(&pages[0]);
        let turned = run(&mut place, &case, cache, [&x, &x, &v], &gains, Some(&angles));
        let table = RopeTable::new(&spec, &[299]).unwrap();
        let (cosines, sines) = table.turns(0);
        let mut expected = still.clone();
        for pair in 0..rotary / 2 {
            let [i, j] = match pairs {
                Pairs::Norm => [2 * pair, 2 * pair + 1],
                Pairs::Neox => [pair, pair + rotary / 2],
            };
            let (a, b) = (still[first + i], still[first + j]);
            expected[first + i] = a * cosines[pair] - b * sines[pair];
            expected[first + j] = b * cosines[pair] + a * sines[pair];
        }
        for (at, (got, expected)) in turned.iter().zip(&expected).enumerate() {
            assert!((got - expected).abs() <= 1e-5, "{pairs:?} from {first}, {at}: {got} {expected}");
            let turns = (first..first + rotary).contains(&at);
            assert!(turns || got.to_bits() == still[at].to_bits(), "{at} has turned");
        }
        let after: Vec<u8> = place.read(&pages[0]);
        let changed = before.chunks(2).zip(after.chunks(2)).filter(|(a, b)| a != b).count();
        assert!((rotary / 2..=rotary).contains(&changed), "{changed} values of the key have changed");
    }
}

#[test]
fn rows_together_are_rows_alone_and_pages_that_are_not_there_stay_out() {
    let mut place = places().remove(0);
    let shape = KvCache::new(1, 64, 64, KvType::F16).unwrap();
    let mut rng = Rng::new(9);
    let sequences = Sequences::new(&mut rng, shape, &[70, 5]);
    let spec = RopeSpec::new(Pairs::Neox, 64, 1e4);
    let angles = RopeAngles::new(&spec, 100).unwrap();
    let case = Case { shape, heads: 2, spec: Some(spec), norms: true, first: 0 };
    // The last two are beyond the sequence's pages and beyond the table.
    let rows = [(0, 68), (0, 69), (1, 4), (1, 64), (2, 0)];
    let (q, k, v) =
        (rng.normals(rows.len() * 128), rng.normals(rows.len() * 64), rng.normals(rows.len() * 64));
    let gains = [rng.normals(64), rng.normals(64)];
    let (cache, pages) = sequences.buffers(&mut place, &rows);
    let together = run(&mut place, &case, cache, [&q, &k, &v], &gains, Some(&angles));
    let (_, others) = sequences.buffers(&mut place, &rows);
    for (i, row) in rows.iter().enumerate().take(3) {
        let cache = sequences.rows(&mut place, &[*row], &others[0], &others[1]);
        let x = [&q[i * 128..][..128], &k[i * 64..][..64], &v[i * 64..][..64]];
        let alone = run(&mut place, &case, cache, x, &gains, Some(&angles));
        assert_eq!(bits(&alone), bits(&together[i * 128..][..128]));
    }
    for (together, alone) in pages.iter().zip(&others) {
        assert_eq!(place.read(together), place.read(alone));
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let shape = KvCache::new(1, 64, 64, KvType::F16).unwrap();
    let sequences = Sequences::new(&mut Rng::new(1), shape, &[3]);
    let (cache, _pages) = sequences.buffers(&mut place, &[(0, 2)]);
    let (x, low, high) = (place.poison::<f32>(64), place.poison::<f32>(256 * 64), place.poison::<f32>(64));
    let rope = Rope { pairs: Pairs::Neox, half: 32, first: 0, low: low.span(), high: high.span() };
    let op = RopeAppend {
        q: x.span(),
        k: x.span(),
        v: x.span(),
        rows: 1,
        heads: 1,
        q_norm: Some((x.span(), 1e-6)),
        k_norm: None,
        rope: Some(rope.clone()),
        cache,
    };
    assert!(op.launch(place.info()).is_ok());
    let refused =
        |op: RopeAppend| op.launch(&super::super::DeviceInfo::emulated((9, 0))).unwrap_err().to_string();
    assert_eq!(
        refused(RopeAppend { heads: 2, ..op.clone() }),
        "rope_append: values of queries is 64, must be 128"
    );
    let norm = Some((x.slice(0..32).unwrap(), 1e-6));
    assert!(refused(RopeAppend { q_norm: norm, ..op.clone() }).contains("gain"));
    let wide = Rope { half: 33, ..rope.clone() };
    assert!(refused(RopeAppend { rope: Some(wide), ..op.clone() }).contains("pairs"));
    let late = Rope { first: 1, ..rope.clone() };
    assert!(refused(RopeAppend { rope: Some(late), ..op.clone() }).contains("first value that turns"));
    let short = Rope { low: high.span(), ..rope };
    assert!(refused(RopeAppend { rope: Some(short), ..op }).contains("low table"));
}
