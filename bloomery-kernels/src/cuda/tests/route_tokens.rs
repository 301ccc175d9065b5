//! Routers whose scores are roots, and experts that tokens have whatever their rows are: the CPU's.

use bloomery_gguf::Format;

use super::super::testing::{Place, places};
use super::super::{ByToken, Route, Scores, Weight};
use crate::cpu::testing::Rng;
use crate::cpu::{Cpu, Isa, Matrix, Numerics, Pool, RouterScore, RouterSpec, RouterWeights, Routes, Scratch};

fn place() -> Place {
    places().pop().unwrap()
}

/// Logits of every size: what is large is linear, what is small is a power.
fn of_all_sizes(rng: &mut Rng, count: usize) -> Vec<f32> {
    (0..count).map(|i| (i as f32 - count as f32 / 2.0) * 90.0 / count as f32 + rng.normals(1)[0]).collect()
}

#[test]
fn roots_and_experts_of_tokens_are_the_cpus() {
    let mut place = place();
    let cols = 4;
    for (count, used, by_token) in [(384, 6, false), (256, 6, true), (12, 3, true), (4, 2, true)] {
        for rows in [1, 2, 7, 8, 9, 31, 33] {
            let mut rng = Rng::new((count + rows) as u64);
            let x: Vec<f32> =
                (0..rows * cols).map(|i| f32::from(u8::from(i % cols == i / cols % cols))).collect();
            let router: Vec<f32> = of_all_sizes(&mut rng, count * cols);
            let (vocab, tokens) = (50, (0..rows).map(|_| rng.below(50) as u32).collect::<Vec<u32>>());
            let table: Vec<u32> = (0..vocab * used).map(|_| rng.below(count) as u32).collect();
            // Rows are every other token, from the last on.
            let all: Vec<u32> = tokens.iter().rev().flat_map(|&token| [0, token]).collect();
            let picked: Vec<u32> = (0..rows as u32).rev().map(|row| 2 * row + 1).collect();
            for picks in [false, true] {
                let given = ByToken {
                    table: place.buffer(&table).span(),
                    tokens: place.buffer(if picks { &all } else { &tokens }).span(),
                    picked: picks.then(|| place.buffer(&picked).span()),
                };
                let bytes: Vec<u8> = router.iter().flat_map(|v| v.to_le_bytes()).collect();
                let (experts, weights) = (place.poison::<u32>(rows * used), place.poison::<f32>(rows * used));
                let spec = RouterSpec { scale: 1.5, ..RouterSpec::softmax(used) };
                let scores = Scores {
                    score: RouterScore::SqrtSoftplus,
                    by_token: by_token.then_some(given),
                    ..Scores::default()
                };
                let op = Route {
                    x: place.buffer(&x).span(),
                    norm: None,
                    router: Weight::new(Format::F32, count, cols, place.buffer(&bytes).span()).unwrap(),
                    spec,
                    scores,
                    share: None,
                    experts: experts.span(),
                    weights: weights.span(),
                    live: None,
                    scratch: place.buffer(&vec![0_u32; Route::scratch_len(rows, count)]).span(),
                };
                op.launches(place.info()).unwrap().iter().for_each(|launch| place.run(launch));
                let cpu = Cpu::new(Pool::new(std::num::NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
                let of = |&token: &u32| table[token as usize * used..][..used].to_vec();
                let chosen: Vec<u32> = tokens.iter().flat_map(of).collect();
                let matrix = Matrix::new(Format::F32, count, cols, &bytes).unwrap();
                let router = RouterWeights { chosen: by_token.then_some(&chosen), ..matrix.into() };
                let spec = RouterSpec { score: RouterScore::SqrtSoftplus, ..spec };
                let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
                cpu.route(&x, rows, router, &spec, &mut routes, &mut scratch).unwrap();
                let name = format!("{rows} rows, {used} of {count}, {by_token}, {picks}");
                assert_eq!(place.read(&experts), routes.experts, "{name}");
                for (found, expected) in place.read(&weights).iter().zip(&routes.weights) {
                    // Logits are exact: a logarithm, a root, a sum of six and a quotient.
                    assert!((found - expected).abs() <= 2e-6 * expected, "{name}: {found}, not {expected}");
                }
            }
        }
    }
}

#[test]
fn tokens_and_numbers_that_there_are_not_have_no_experts() {
    let mut place = place();
    let (count, used, cols, rows) = (8, 2, 4, 3);
    let (experts, weights) = (place.poison::<u32>(rows * used), place.poison::<f32>(rows * used));
    let router = place.buffer(&vec![0_u8; 4 * count * cols]).span();
    let given = ByToken {
        table: place.buffer(&[3_u32, 8, 5, 6]).span(),
        tokens: place.buffer(&[0_u32, 2, 1]).span(),
        picked: None,
    };
    let score = RouterScore::SqrtSoftplus;
    let op = Route {
        x: place.buffer(&vec![1.0_f32; rows * cols]).span(),
        norm: None,
        router: Weight::new(Format::F32, count, cols, router).unwrap(),
        spec: RouterSpec::softmax(used),
        scores: Scores { score, by_token: Some(given.clone()), ..Scores::default() },
        share: None,
        experts: experts.span(),
        weights: weights.span(),
        live: None,
        scratch: place.buffer(&vec![0_u32; Route::scratch_len(rows, count)]).span(),
    };
    op.launches(place.info()).unwrap().iter().for_each(|launch| place.run(launch));
    assert_eq!(place.read(&experts), [3, u32::MAX, u32::MAX, u32::MAX, 5, 6]);
    assert_eq!(place.read(&weights), [1.0, 0.0, 0.0, 0.0, 0.5, 0.5]);
    let refused = |scores| Route { scores, ..op.clone() }.launches(place.info()).unwrap_err().to_string();
    let short = ByToken { tokens: given.tokens.slice(0..2).unwrap(), ..given.clone() };
    let scores = Scores { score, by_token: Some(short), ..Scores::default() };
    assert_eq!(refused(scores), "route: tokens is 2, must be 3");
    let scores = Scores { score, groups: Some((4, 2)), by_token: Some(given), ..Scores::default() };
    assert!(refused(scores).contains("beside a table"));
}
