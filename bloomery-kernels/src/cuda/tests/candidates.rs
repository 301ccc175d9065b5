//! The largest logits of rows, against a sort.

use super::super::Candidates;
use super::super::testing::{Place, places};
use crate::cpu::testing::{Rng, bits};

struct Got {
    ids: Vec<u32>,
    logits: Vec<f32>,
    lse: Vec<f32>,
}

fn run(place: &mut Place, logits: &[f32], vocab: usize, k: usize) -> Got {
    let rows = logits.len() / vocab;
    let all = place.buffer(logits);
    let (ids, out, lse) =
        (place.poison::<u32>(rows * k), place.poison::<f32>(rows * k), place.poison::<f32>(rows));
    let scratch = place.poison::<u32>(Candidates::scratch_len(rows, vocab));
    let op = Candidates {
        logits: all.span(),
        vocab,
        k,
        ids: ids.span(),
        logits_out: out.span(),
        lse: lse.span(),
        scratch: scratch.span(),
    };
    for launch in op.launches(place.info()).unwrap() {
        place.run(&launch);
    }
    Got { ids: place.read(&ids), logits: place.read(&out), lse: place.read(&lse) }
}

/// The candidates of a row: a NaN above all.
fn best(logits: &[f32], k: usize) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    let rank = |id: &u32| {
        let logit = logits[*id as usize];
        if logit.is_nan() { (1, 0.0) } else { (0, logit) }
    };
    // Stable: of equal ones the lower id comes first.
    ids.sort_by(|a, b| rank(b).partial_cmp(&rank(a)).unwrap());
    ids.truncate(k);
    ids
}

fn check(name: &str, logits: &[f32], vocab: usize, k: usize, got: &Got) {
    for (row, logits) in logits.chunks(vocab).enumerate() {
        let name = format!("{name}: row {row}, {k} of {vocab}");
        let expected = best(logits, k);
        assert_eq!(got.ids[row * k..][..k], expected, "{name}");
        for (got, id) in got.logits[row * k..][..k].iter().zip(&expected) {
            let logit = logits[*id as usize];
            assert!(*got == logit || (got.is_nan() && logit.is_nan()), "{name}: {got} {logit}");
        }
        let most = f64::from(logits[expected[0] as usize]);
        let lse = got.lse[row];
        if most.is_finite() {
            let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - most).exp()).sum();
            let exact = most + sum.ln();
            // Powers to 2 ulp; 8 terms and a tree of 5 in a batch, 16 and two such trees over batches, the logarithm and
            // the sum with the largest.
            let bound =
                40.0 * f64::from(f32::EPSILON) + 2.0 * f64::from(f32::EPSILON) * exact.abs().max(most.abs());
            assert!((f64::from(lse) - exact).abs() <= bound, "{name}: {lse} {exact}");
        } else {
            assert!(lse.is_nan() || most == f64::from(lse), "{name}: {lse} {most}");
        }
    }
}

#[test]
fn candidates_are_the_largest() {
    let mut place = places().pop().unwrap();
    let mut cases =
        vec![(1, 1, 1), (1, 5, 3), (2, 1000, 128), (3, 1003, 40), (1, 33_000, 20), (1, 33_001, 1)];
    if place.is_card() {
        cases.extend([(1, 151_936, 128), (32, 151_936, 40), (3, 50_257, 128), (2, 1_100_001, 128)]);
    }
    for (rows, vocab, k) in cases {
        let mut logits = Rng::new(vocab as u64).normals(rows * vocab);
        logits.iter_mut().for_each(|logit| *logit *= 3.0);
        let got = run(&mut place, &logits, vocab, k);
        check("normal", &logits, vocab, k, &got);
        // A row alone has the same bits.
        let alone = run(&mut place, &logits[(rows - 1) * vocab..], vocab, k);
        assert_eq!(alone.ids, got.ids[(rows - 1) * k..]);
        assert_eq!(bits(&alone.lse), bits(&got.lse[rows - 1..]));
    }
}

#[test]
fn equal_logits_come_by_id() {
    let mut place = places().pop().unwrap();
    let mut cases = vec![(900, 128), (5000, 9)];
    if place.is_card() {
        cases.push((151_936, 128));
    }
    for (vocab, k) in cases {
        // All equal, the two zeros, few different ones, nearly equal ones, and the largest together at the end.
        let mut rng = Rng::new(3);
        let kinds: [(&str, Vec<f32>); 5] = [
            ("equal", vec![2.5; vocab]),
            ("zeros", (0..vocab).map(|i| if i % 3 == 0 { 0.0 } else { -0.0 }).collect()),
            ("few", (0..vocab).map(|_| rng.below(5) as f32).collect()),
            ("near", (0..vocab).map(|i| 7.0 + (i * 7919 % vocab) as f32 * 1e-6).collect()),
            ("ascending", (0..vocab).map(|i| i as f32 * 0.01).collect()),
        ];
        for (name, logits) in kinds {
            check(name, &logits, vocab, k, &run(&mut place, &logits, vocab, k));
        }
    }
}

#[test]
fn what_cannot_be_drawn_from_comes_first() {
    let mut place = places().pop().unwrap();
    let (vocab, k) = (2000, 7);
    let normal = Rng::new(9).normals(vocab);
    let mut infinite = normal.clone();
    infinite[700] = f32::INFINITY;
    let mut nan = infinite.clone();
    nan[1500] = f32::NAN;
    nan[1200] = -f32::NAN;
    let mut masked = vec![f32::NEG_INFINITY; vocab];
    let none = masked.clone();
    (masked[300], masked[1999]) = (-5.0, 3.0);
    for k in [1, k] {
        for (name, logits) in [("infinite", &infinite), ("nan", &nan), ("masked", &masked), ("none", &none)] {
            let got = run(&mut place, logits, vocab, k);
            check(name, logits, vocab, k, &got);
        }
    }
    assert_eq!(run(&mut place, &nan, vocab, k).ids[..3], [1200, 1500, 700]);
    assert_eq!(run(&mut place, &none, vocab, 1).lse, [f32::NEG_INFINITY]);
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().pop().unwrap();
    let (logits, ids) = (place.buffer(&[0.0_f32; 64]), place.buffer(&[0_u32; 64]));
    let op = Candidates {
        logits: logits.span(),
        vocab: 32,
        k: 4,
        ids: ids.slice(0..8).unwrap(),
        logits_out: logits.slice(0..8).unwrap(),
        lse: logits.slice(0..2).unwrap(),
        scratch: ids.span(),
    };
    assert!(op.launches(place.info()).is_ok());
    let refused = |op: Candidates| op.launches(place.info()).unwrap_err().to_string();
    let error = refused(Candidates { k: 33, ..op.clone() });
    assert_eq!(error, "candidates: candidates of a row is 33, must be 1 to 32");
    assert_eq!(refused(Candidates { k: 5, ..op.clone() }), "candidates: ids is 8, must be 10");
    let error = refused(Candidates { vocab: 31, ..op.clone() });
    assert_eq!(error, "candidates: logits is 64, must be 62");
    let error = refused(Candidates { scratch: ids.slice(0..23).unwrap(), ..op });
    assert_eq!(error, "candidates: scratch values is 23, must be at least 24");
}
