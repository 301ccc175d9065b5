//! What a sampler needs of a row, and that no more than that decides.

use bloomery_core::sampling::{
    MOST_CANDIDATES, Mirostat, Needs, Sampler, SamplerKind, SamplingError, SamplingParams, Seed, TopLogits,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn needs(params: &SamplingParams) -> Needs {
    Sampler::new(params, 100).unwrap().needs()
}

#[test]
fn the_first_step_decides() {
    let default = SamplingParams::default;
    let top = [
        (default(), 40),
        (SamplingParams { top_k: MOST_CANDIDATES as i32, ..default() }, MOST_CANDIDATES),
        (SamplingParams::greedy(), 1),
        (SamplingParams { top_k: 5, ..SamplingParams::greedy() }, 5),
        (SamplingParams { temperature: -1.0, top_k: 0, top_p: 0.5, ..default() }, 1),
        (SamplingParams { dynatemp_range: 0.5, xtc_probability: 0.5, ..default() }, 40),
        // What is off does not count.
        (SamplingParams { dry_multiplier: 0.0, repeat_penalty: 1.0, top_n_sigma: 0.0, ..default() }, 40),
        // After the cut, penalties only touch what is left.
        (
            SamplingParams {
                samplers: vec![SamplerKind::TopK, SamplerKind::Penalties, SamplerKind::Temperature],
                repeat_penalty: 1.5,
                ..default()
            },
            40,
        ),
    ];
    for (params, k) in top {
        // Greedy choice drops the steps that keep the best; a cut that stays in front of it needs no more.
        let found = needs(&params);
        assert!(matches!(found, Needs::Top(n) if n <= k), "{found:?} for {k}: {params:?}");
    }
    assert_eq!(needs(&default()), Needs::Top(40));
    assert_eq!(needs(&SamplingParams::greedy()), Needs::Top(1));
    let all = [
        SamplingParams { top_k: 0, ..default() },
        SamplingParams { top_k: MOST_CANDIDATES as i32 + 1, ..default() },
        SamplingParams { n_probs: 1, ..default() },
        SamplingParams { n_probs: 1, post_sampling_probs: true, ..default() },
        SamplingParams { logit_bias: vec![(3, 1.0)], ..default() },
        SamplingParams { repeat_penalty: 1.1, ..default() },
        SamplingParams { presence_penalty: 0.1, ..default() },
        SamplingParams { dry_multiplier: 0.8, ..default() },
        SamplingParams { top_n_sigma: 1.0, ..default() },
        SamplingParams { mirostat: Mirostat::V1, ..default() },
        SamplingParams { mirostat: Mirostat::V2, ..default() },
        SamplingParams { samplers: vec![SamplerKind::TopP, SamplerKind::TopK], ..default() },
        // Quotients may be equal where logits are not.
        SamplingParams { samplers: vec![SamplerKind::Temperature, SamplerKind::TopK], ..default() },
        SamplingParams { samplers: Vec::new(), ..default() },
    ];
    for params in all {
        assert_eq!(needs(&params), Needs::All, "{params:?}");
    }
}

#[test]
fn too_little_is_refused() {
    let mut sampler = Sampler::new(&SamplingParams { top_k: 0, ..SamplingParams::default() }, 10).unwrap();
    let top = TopLogits::of(&[1.0, 2.0], 2);
    assert_eq!(sampler.sample_top(&top), Err(SamplingError::Candidates { found: 2 }));
    let mut greedy = Sampler::new(&SamplingParams::greedy(), 10).unwrap();
    let nan = TopLogits::new(&[7], &[f32::NAN]);
    assert!(matches!(greedy.sample_top(&nan), Err(SamplingError::Logit { token: 7, .. })));
    let none = TopLogits::new(&[7], &[f32::NEG_INFINITY]);
    assert!(matches!(greedy.sample_top(&none), Err(SamplingError::NoCandidate { .. })));
    assert!(matches!(greedy.sample_top(&TopLogits::default()), Err(SamplingError::NoCandidate { .. })));
}

/// Chains that need candidates only.
fn chains() -> impl Strategy<Value = SamplingParams> {
    let kinds = prop::sample::select(vec![
        SamplerKind::DEFAULT_ORDER.to_vec(),
        vec![SamplerKind::TopK],
        vec![SamplerKind::TopK, SamplerKind::Temperature, SamplerKind::AdaptiveP],
        vec![SamplerKind::TopK, SamplerKind::Penalties, SamplerKind::Temperature, SamplerKind::TopP],
        vec![SamplerKind::TopK, SamplerKind::Temperature, SamplerKind::TopNSigma, SamplerKind::Xtc],
        vec![SamplerKind::Temperature],
    ]);
    let numbers =
        (1i32..=128, prop::sample::select(vec![-1f32, 0.0, 0.3, 0.8, 1.0, 2.0]), 0f32..1.1, 0f32..0.3);
    let more = (0f32..1.2, 0f32..1.0, 0f32..0.7, 0u32..4, any::<u32>());
    (kinds, numbers, more).prop_map(
        |(samplers, (top_k, temperature, top_p, min_p), (typical_p, xtc, range, min_keep, seed))| {
            let late = samplers.first() == Some(&SamplerKind::TopK);
            SamplingParams {
                top_k,
                temperature: if samplers == [SamplerKind::Temperature] { 0.0 } else { temperature },
                top_p,
                min_p,
                typical_p,
                xtc_probability: xtc,
                dynatemp_range: if range > 0.4 && samplers != [SamplerKind::Temperature] {
                    range
                } else {
                    0.0
                },
                min_keep,
                repeat_penalty: if late { 1.3 } else { 1.0 },
                top_n_sigma: if late { 1.5 } else { 0.0 },
                adaptive_target: 0.3,
                samplers,
                seed: Seed::Fixed(seed & 0xffff),
                ..SamplingParams::default()
            }
        },
    )
}

/// A row with ties and with logits at -inf.
fn row(seed: u64, len: usize, steps: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len)
        .map(|_| match next() % 50 {
            0 => f32::NEG_INFINITY,
            _ => (next() % steps) as f32 * (12.0 / steps as f32) - 6.0,
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn candidates_draw_what_whole_rows_draw(
        params in chains(), seed in any::<u64>(), len in 1usize..3000, steps in prop::sample::select(vec![4u64, 50, 1 << 20]),
        more in 0usize..70,
    ) {
        let (mut whole, mut few) = (Sampler::new(&params, 100).unwrap(), Sampler::new(&params, 100).unwrap());
        let Needs::Top(k) = whole.needs() else { return Err(TestCaseError::reject("needs all")) };
        for token in 0..8 {
            let logits = row(seed.wrapping_add(token), len, steps);
            let expected = whole.sample(&logits, None);
            // What others in the step need may be more.
            let found = few.sample_top(&TopLogits::of(&logits, k + more));
            match (&expected, &found) {
                (Ok(expected), Ok(found)) => prop_assert_eq!(expected, found),
                (Err(SamplingError::NoCandidate { .. }), Err(SamplingError::NoCandidate { .. })) => break,
                _ => prop_assert!(false, "{expected:?} {found:?}"),
            }
            let id = expected.unwrap().id;
            whole.accept(id);
            few.accept(id);
        }
    }
}
