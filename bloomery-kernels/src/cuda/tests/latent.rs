//! Latents in the cache, and queries whose tails have turned, against double precision.

use super::super::testing::{Place, places};
use super::super::{
    AbsorbAppend, DeviceInfo, HeadWeights, KvCache, KvRows, LatentAppend, PerHead, Rope, RopeAngles,
};
use super::paged::Sequences;
use super::rope::near;
use crate::cpu::testing::{Rng, bits};
use crate::cpu::{KvType, Pairs, RopeSpec, RopeTable};

const EPS: f32 = 1e-6;

struct Case {
    shape: KvCache,
    heads: usize,
    spec: Option<RopeSpec>,
}

impl Case {
    fn new(kind: KvType, heads: usize, (latent, rope): (usize, usize)) -> Self {
        let spec = (rope > 0).then(|| RopeSpec::new(Pairs::Norm, rope, 1e4));
        Self { shape: KvCache::new(1, latent + rope, latent, kind).unwrap(), heads, spec }
    }
}

fn run(place: &mut Place, case: &Case, cache: KvRows, [q, kv, gain]: [&[f32]; 3]) -> Vec<f32> {
    let [q, kv, gain] = [q, kv, gain].map(|x| place.buffer(x));
    let rope = case.spec.as_ref().map(|spec| {
        let angles = RopeAngles::new(spec, 512).unwrap();
        Rope {
            pairs: angles.pairs,
            half: angles.half,
            first: case.shape.value_dim(),
            low: place.buffer(&angles.low).span(),
            high: place.buffer(&angles.high).span(),
        }
    });
    let op = LatentAppend {
        q: q.span(),
        kv: kv.span(),
        rows: cache.positions.len(),
        heads: case.heads,
        norm: (gain.span(), EPS),
        rope,
        cache,
    };
    let launch = op.launch(place.info()).unwrap();
    place.run(&launch);
    place.read(&q)
}

/// Turns pairs of neighbours.
fn turn(x: &mut [f32], table: &RopeTable, row: usize) {
    let (cosines, sines) = table.turns(row);
    for (pair, (c, s)) in x.chunks_exact_mut(2).zip(cosines.iter().zip(sines)) {
        let [a, b] = [pair[0], pair[1]].map(f64::from);
        let (c, s) = (f64::from(*c), f64::from(*s));
        pair.copy_from_slice(&[(a * c - b * s) as f32, (b * c + a * s) as f32]);
    }
}

#[test]
fn latents_and_keys_are_where_they_belong() {
    let mut place = places().remove(0);
    for case in [
        Case::new(KvType::F16, 3, (512, 64)),
        Case::new(KvType::Q8_0, 2, (512, 64)),
        Case::new(KvType::F32, 1, (256, 32)),
        Case::new(KvType::F16, 4, (32, 8)),
        Case::new(KvType::F32, 1, (80, 0)),
    ] {
        let (shape, heads) = (case.shape, case.heads);
        let (key, latent) = (shape.key_dim(), shape.value_dim());
        let mut rng = Rng::new(key as u64);
        let mut sequences = Sequences::new(&mut rng, shape, &[3, 66, 300]);
        let rows = [(0, 1), (0, 2), (1, 63), (1, 64), (2, 299)];
        let (q, kv) = (rng.normals(rows.len() * heads * key), rng.normals(rows.len() * key));
        let gain = rng.normals(latent);
        let positions: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
        let table = case.spec.as_ref().map(|spec| RopeTable::new(spec, &positions).unwrap());
        let (cache, pages) = sequences.buffers(&mut place, &rows);
        let got = run(&mut place, &case, cache, [&q, &kv, &gain]);

        let mut expected = q.clone();
        for (i, (s, position)) in rows.into_iter().enumerate() {
            let mut row = kv[i * key..(i + 1) * key].to_vec();
            let square = row[..latent].iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / latent as f64;
            let inverse = 1.0 / (square + f64::from(EPS)).sqrt();
            for (x, gain) in row.iter_mut().zip(&gain) {
                *x = (f64::from(*x) * inverse * f64::from(*gain)) as f32;
            }
            if let Some(table) = &table {
                turn(&mut row[latent..], table, i);
                for q in expected[i * heads * key..(i + 1) * heads * key].chunks_exact_mut(key) {
                    turn(&mut q[latent..], table, i);
                }
            }
            sequences.k[s][position * key..][..key].copy_from_slice(&row);
            sequences.v[s][position * latent..][..latent].copy_from_slice(&row[..latent]);
        }
        let name = format!("{shape:?}");
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert!((got - expected).abs() <= 5e-6, "{name}: query {i}: {got} {expected}");
            assert!(i % key >= latent || got.to_bits() == q[i].to_bits(), "{name}: query {i} has turned");
        }
        let [keys, values] = sequences.packed();
        near(shape, &place.read(&pages[0]), &keys, &format!("{name} keys"));
        near(shape, &place.read(&pages[1]), &values, &format!("{name} values"));
    }
}

#[test]
fn rows_together_are_rows_alone() {
    let mut place = places().remove(0);
    let case = Case::new(KvType::F16, 2, (64, 16));
    let mut rng = Rng::new(3);
    let sequences = Sequences::new(&mut rng, case.shape, &[70, 5]);
    // The last two are beyond the sequence's pages and beyond the table.
    let rows = [(0, 68), (0, 69), (1, 4), (1, 64), (2, 0)];
    let (q, kv, gain) = (rng.normals(rows.len() * 160), rng.normals(rows.len() * 80), rng.normals(64));
    let (cache, pages) = sequences.buffers(&mut place, &rows);
    let together = run(&mut place, &case, cache, [&q, &kv, &gain]);
    let (_, others) = sequences.buffers(&mut place, &rows);
    for (i, row) in rows.iter().enumerate().take(3) {
        let cache = sequences.rows(&mut place, &[*row], &others[0], &others[1]);
        let alone = run(&mut place, &case, cache, [&q[i * 160..][..160], &kv[i * 80..][..80], &gain]);
        assert_eq!(bits(&alone), bits(&together[i * 160..][..160]));
    }
    for (together, alone) in pages.iter().zip(&others) {
        assert_eq!(place.read(together), place.read(alone));
    }
}

#[test]
fn absorbing_and_appending_at_once_is_one_after_the_other() {
    let mut place = places().remove(0);
    // Without anything that turns, too.
    for (kind, rows, rope) in [
        (KvType::F16, vec![(0, 68), (0, 69), (1, 4)], 32),
        (KvType::Q8_0, vec![(0, 69)], 32),
        (KvType::F16, vec![(0, 69), (1, 4)], 0),
    ] {
        let (heads, nope, latent) = (3, 48, 64);
        let case = Case::new(kind, heads, (latent, rope));
        let (key, mut rng) = (latent + rope, Rng::new(8));
        let sequences = Sequences::new(&mut rng, case.shape, &[70, 5]);
        let q = rng.normals(rows.len() * heads * (nope + rope));
        let (kv, gain) = (rng.normals(rows.len() * key), rng.normals(latent));
        let matrices = HeadWeights::pack(heads, latent, nope, &rng.normals(heads * latent * nope)).unwrap();
        let matrices = place.buffer(&matrices);
        let weights = HeadWeights::new(heads, latent, nope, matrices.span()).unwrap();
        let [q, kv, gain] = [q, kv, gain].map(|x| place.buffer(&x));
        let angles = RopeAngles::new(&RopeSpec::new(Pairs::Norm, rope, 1e4), 512).unwrap();
        let (low, high) = (place.buffer(&angles.low), place.buffer(&angles.high));
        let mut results = Vec::new();
        let q_of_others = place.poison::<f32>(rows.len() * heads * key);
        for at_once in [false, true] {
            let out = place.poison::<f32>(rows.len() * heads * key);
            let (cache, pages) = sequences.buffers(&mut place, &rows);
            let (x, weights, q) = (q.span(), weights.clone(), out.span());
            let products = PerHead { x, weights, out: out.span(), rows: rows.len(), tail: rope };
            let (low, high) = (low.span(), high.span());
            let rope = Rope { pairs: angles.pairs, half: angles.half, first: latent, low, high };
            let append = LatentAppend {
                q,
                kv: kv.span(),
                rows: rows.len(),
                heads,
                norm: (gain.span(), EPS),
                rope: Some(rope),
                cache,
            };
            let other = LatentAppend { q: q_of_others.span(), ..append.clone() };
            let other = AbsorbAppend { products: products.clone(), append: other }.launch(place.info());
            assert!(other.unwrap_err().to_string().contains("the address of queries"));
            let launches = match at_once {
                true => vec![AbsorbAppend { products, append }.launch(place.info()).unwrap()],
                false => vec![products.launch(place.info()).unwrap(), append.launch(place.info()).unwrap()],
            };
            launches.iter().for_each(|launch| place.run(launch));
            let pages = pages.map(|pages| place.read(&pages));
            results.push((bits(&place.read(&out)), pages));
        }
        assert!(results[0] == results[1], "{kind:?}");
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let case = Case::new(KvType::F16, 1, (64, 16));
    let sequences = Sequences::new(&mut Rng::new(1), case.shape, &[3]);
    let (cache, _pages) = sequences.buffers(&mut place, &[(0, 2)]);
    let (x, low) = (place.poison::<f32>(80), place.poison::<f32>(256 * 16));
    let gain = x.slice(0..64).unwrap();
    let rope =
        Rope { pairs: Pairs::Norm, half: 8, first: 64, low: low.span(), high: x.slice(0..16).unwrap() };
    let op = LatentAppend {
        q: x.span(),
        kv: x.span(),
        rows: 1,
        heads: 1,
        norm: (gain, EPS),
        rope: Some(rope.clone()),
        cache: cache.clone(),
    };
    assert!(op.launch(place.info()).is_ok());
    let refused = |op: LatentAppend| op.launch(&DeviceInfo::emulated((9, 0))).unwrap_err().to_string();
    assert_eq!(
        refused(LatentAppend { heads: 2, ..op.clone() }),
        "latent_append: values of queries is 80, must be 160"
    );
    assert!(refused(LatentAppend { norm: (x.span(), EPS), ..op.clone() }).contains("gain"));
    assert!(refused(LatentAppend { kv: low.span(), ..op.clone() }).contains("latents"));
    let early = Rope { first: 60, ..rope };
    assert!(refused(LatentAppend { rope: Some(early), ..op.clone() }).contains("first value that turns"));
    let shape = KvCache::new(2, 80, 64, KvType::F16).unwrap();
    let sequences = Sequences::new(&mut Rng::new(1), shape, &[3]);
    let (cache, _pages) = sequences.buffers(&mut place, &[(0, 2)]);
    assert!(refused(LatentAppend { cache, ..op }).contains("KV heads"));
}
