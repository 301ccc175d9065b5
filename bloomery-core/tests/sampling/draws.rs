//! The final draw: its statistics, repeatability, forks, masks, reported probabilities.

use bloomery_core::sampling::{Mirostat, Sampled, Sampler, SamplerKind, SamplingParams, Seed};

fn fixed(seed: u32, params: SamplingParams) -> SamplingParams {
    SamplingParams { seed: Seed::Fixed(seed), ..params }
}

fn wave(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 37) % 101) as f32 * 0.06 - 3.0).collect()
}

/// Chi-square of `draws` draws against the reported distribution, and its degrees of freedom.
fn chi_square(params: &SamplingParams, logits: &[f32], draws: u32, cells: usize) -> (f64, f64) {
    let reported = SamplingParams { n_probs: logits.len(), post_sampling_probs: true, ..params.clone() };
    let top = Sampler::new(&reported, 0).unwrap().sample(logits, None).unwrap().top;
    let mut expected = vec![0f64; cells];
    for t in &top {
        expected[t.id as usize % cells] += f64::from(t.prob()) * f64::from(draws);
    }
    let mut seen = vec![0f64; cells];
    let mut sampler = Sampler::new(params, 0).unwrap();
    for _ in 0..draws {
        let id = sampler.sample(logits, None).unwrap().id;
        assert!(top.iter().any(|t| t.id == id), "token {id} did not survive");
        seen[id as usize % cells] += 1.0;
    }
    let used = expected.iter().filter(|e| **e > 0.0).count() as f64;
    let cells = seen.iter().zip(&expected).filter(|c| *c.1 > 0.0);
    (cells.map(|(s, e)| (s - e).powi(2) / e).sum(), used - 1.0)
}

/// The 99.9 % quantile of chi-square, by Wilson and Hilferty.
fn quantile(freedom: f64) -> f64 {
    let a = 2.0 / (9.0 * freedom);
    freedom * (1.0 - a + 3.0902 * a.sqrt()).powi(3)
}

#[test]
fn draws_follow_the_distribution() {
    let everything = SamplingParams { samplers: Vec::new(), ..SamplingParams::default() };
    let typical = SamplingParams { typical_p: 0.7, top_k: 0, ..SamplingParams::default() };
    // eta 0: the limit stays where it is
    let mirostat = |mirostat| SamplingParams { mirostat, mirostat_eta: 0.0, ..SamplingParams::default() };
    for (what, params, n) in [
        ("defaults", SamplingParams::default(), 12),
        ("typical", typical, 60),
        ("whole vocabulary", everything, 3000),
        ("mirostat 1", mirostat(Mirostat::V1), 300),
        ("mirostat 2", mirostat(Mirostat::V2), 300),
    ] {
        for seed in 1..=3 {
            let (x, freedom) = chi_square(&fixed(seed, params.clone()), &wave(n), 20_000, 40);
            assert!(x < quantile(freedom), "{what}, seed {seed}: {x} with {freedom} degrees of freedom");
        }
    }
}

#[test]
fn xtc_acts_as_often_as_asked() {
    let params = SamplingParams {
        samplers: vec![SamplerKind::Xtc],
        xtc_probability: 0.3,
        ..fixed(5, SamplingParams::default())
    };
    let mut sampler = Sampler::new(&params, 0).unwrap();
    let logits = [2.0f32, 1.9, 0.0].map(|l| l * 1.0);
    // token 0 is drawn only when XTC does not act: 0.7 * p0
    let p0 = 2f64.exp() / (2f64.exp() + 1.9f64.exp() + 1.0);
    let n = 20_000;
    let hits = (0..n).filter(|_| sampler.sample(&logits, None).unwrap().id == 0).count();
    let (mean, deviation) = (0.7 * p0, (0.7 * p0 * (1.0 - 0.7 * p0) / f64::from(n)).sqrt());
    assert!((hits as f64 / f64::from(n) - mean).abs() < 3.3 * deviation);
}

fn run(sampler: &mut Sampler, n: usize) -> Vec<u32> {
    let logits = wave(500);
    (0..n)
        .map(|_| {
            let id = sampler.sample(&logits, None).unwrap().id;
            sampler.accept(id);
            id
        })
        .collect()
}

fn stateful() -> Vec<SamplingParams> {
    let busy = SamplingParams {
        repeat_penalty: 1.3,
        frequency_penalty: 0.2,
        dry_multiplier: 0.8,
        xtc_probability: 0.5,
        repeat_last_n: -1,
        ..SamplingParams::default()
    };
    let adaptive = SamplingParams {
        samplers: vec![SamplerKind::TopK, SamplerKind::AdaptiveP],
        adaptive_target: 0.1,
        ..SamplingParams::default()
    };
    let mirostat = |mirostat| SamplingParams { mirostat, ..SamplingParams::default() };
    vec![SamplingParams::default(), busy, adaptive, mirostat(Mirostat::V1), mirostat(Mirostat::V2)]
}

#[test]
fn a_seed_repeats_and_a_fork_continues() {
    for params in stateful() {
        let params = fixed(99, params);
        let mut one = Sampler::new(&params, 50).unwrap();
        let first = run(&mut one, 80);
        assert_eq!(first, run(&mut Sampler::new(&params, 50).unwrap(), 80));
        let mut fork = one.clone();
        let next = run(&mut one, 80);
        assert_eq!(next, run(&mut fork, 80));
        one.reset();
        assert_eq!(first, run(&mut one, 80));
        assert_ne!(first, run(&mut Sampler::new(&fixed(100, params), 50).unwrap(), 80));
    }
}

#[test]
fn a_random_seed_is_reported() {
    let mut random = Sampler::new(&SamplingParams::default(), 0).unwrap();
    let again = fixed(random.seed(), SamplingParams::default());
    assert_eq!(run(&mut random, 40), run(&mut Sampler::new(&again, 0).unwrap(), 40));
    assert_eq!(Seed::from(u32::MAX), Seed::Random);
    assert_eq!(Seed::from(3), Seed::Fixed(3));
}

#[test]
fn golden_tokens() {
    // pins the generator, the seeding and the walk over the weights
    let mut sampler = Sampler::new(&fixed(42, SamplingParams::default()), 0).unwrap();
    assert_eq!(run(&mut sampler, 8), GOLDEN);
}
const GOLDEN: [u32; 8] = [483, 464, 240, 453, 382, 423, 333, 49];

#[test]
fn a_mask_leaves_only_what_it_allows() {
    let logits = wave(70);
    let mut mask = [0u32; 3];
    for id in [3, 40, 69] {
        mask[id / 32] |= 1 << (id % 32);
    }
    for params in stateful() {
        let mut sampler = Sampler::new(&fixed(1, params), 50).unwrap();
        for _ in 0..200 {
            let id = sampler.sample(&logits, Some(&mask)).unwrap().id;
            assert!([3, 40, 69].contains(&id));
        }
    }
    let all = [u32::MAX; 3];
    let params = fixed(7, SamplingParams::default());
    let masked = Sampler::new(&params, 0).unwrap().sample(&logits, Some(&all));
    assert_eq!(masked, Sampler::new(&params, 0).unwrap().sample(&logits, None));
}

#[test]
fn raw_probabilities_ignore_the_chain() {
    let logits = [1.0, 2.0, f32::NEG_INFINITY, 0.5];
    let sum: f64 = [1f64, 2.0, 0.5].iter().map(|l| l.exp()).sum();
    let exact = |l: f64| (l - sum.ln()) as f32;
    let params = SamplingParams { n_probs: 4, logit_bias: vec![(1, -50.0)], ..SamplingParams::greedy() };
    let Sampled { id, logprob, top } = Sampler::new(&params, 0).unwrap().sample(&logits, None).unwrap();
    assert_eq!(id, 0);
    assert!((logprob.unwrap() - exact(1.0)).abs() < 1e-6);
    // a token of probability 0 is not listed
    assert_eq!(top.iter().map(|t| t.id).collect::<Vec<_>>(), [1, 0, 3]);
    for (t, l) in top.iter().zip([2.0, 1.0, 0.5]) {
        assert!((t.logprob - exact(l)).abs() < 1e-6);
    }
    let one = SamplingParams { n_probs: 1, ..params.clone() };
    assert_eq!(Sampler::new(&one, 0).unwrap().sample(&logits, None).unwrap().top.len(), 1);
    let none = SamplingParams { n_probs: 0, ..params.clone() };
    let sampled = Sampler::new(&none, 0).unwrap().sample(&logits, None).unwrap();
    assert_eq!(sampled, Sampled { id: 0, logprob: None, top: vec![] });
    let post = SamplingParams { post_sampling_probs: true, ..params };
    let sampled = Sampler::new(&post, 0).unwrap().sample(&logits, None).unwrap();
    assert_eq!((sampled.logprob, sampled.top.len(), sampled.top[0].id), (Some(0.0), 1, 0));
}

#[test]
fn mirostat_steers_towards_its_target() {
    let logits = wave(4000);
    for (mirostat, tau) in [(Mirostat::V1, 4.0), (Mirostat::V2, 4.0), (Mirostat::V2, 2.5)] {
        let params = SamplingParams {
            mirostat,
            mirostat_tau: tau,
            temperature: 0.5,
            n_probs: 1,
            post_sampling_probs: true,
            ..fixed(3, SamplingParams::default())
        };
        let mut sampler = Sampler::new(&params, 0).unwrap();
        let surprise = |s: Sampled| f64::from(-s.logprob.unwrap()) / std::f64::consts::LN_2;
        let all: Vec<f64> = (0..600).map(|_| surprise(sampler.sample(&logits, None).unwrap())).collect();
        let mean = all[100..].iter().sum::<f64>() / 500.0;
        assert!((mean - f64::from(tau)).abs() < 0.25, "{mirostat:?}: {mean}");
    }
}

#[test]
fn adaptive_p_steers_towards_its_target() {
    let logits: Vec<f32> = (0..12).map(|i| -(i as f32) * 0.7).collect();
    let raw: Vec<f32> = {
        let sum: f32 = logits.iter().map(|l| l.exp()).sum();
        logits.iter().map(|l| l.exp() / sum).collect()
    };
    let mean = |target| {
        let params = SamplingParams {
            samplers: vec![SamplerKind::AdaptiveP],
            adaptive_target: target,
            ..fixed(3, SamplingParams::default())
        };
        let mut sampler = Sampler::new(&params, 0).unwrap();
        let mut total = 0.0;
        for _ in 0..2000 {
            let id = sampler.sample(&logits, None).unwrap().id;
            sampler.accept(id);
            total += raw[id as usize] / 2000.0;
        }
        total
    };
    let (low, high) = (mean(0.1), mean(0.3));
    assert!(low + 0.05 < high, "{low} {high}");
    let plain: f32 = raw.iter().map(|p| p * p).sum();
    let off = mean(-1.0);
    assert!((off - plain).abs() < 0.01, "{off} {plain}");
}

#[test]
fn adaptive_p_by_hand() {
    // without memory the aim of the second token is 2 * target - probability of the first
    let params = SamplingParams {
        samplers: vec![SamplerKind::AdaptiveP],
        adaptive_target: 0.4,
        adaptive_decay: 0.0,
        n_probs: 2,
        post_sampling_probs: true,
        ..fixed(1, SamplingParams::default())
    };
    let logits = [0.7f32.ln(), 0.3f32.ln()];
    let weight = |p: f64, aim: f64| {
        let d = ((p - aim) / 0.3).abs();
        (5.0 - 10.0 * d * d / (1.0 + d)).exp()
    };
    let expected = |aim: f64| weight(0.7, aim) / (weight(0.7, aim) + weight(0.3, aim));
    let mut sampler = Sampler::new(&params, 0).unwrap();
    let mut aim = 0.4;
    for _ in 0..20 {
        let sampled = sampler.sample(&logits, None).unwrap();
        let first = sampled.top.iter().find(|t| t.id == 0).unwrap().prob();
        assert!((f64::from(first) - expected(aim)).abs() < 1e-5);
        // a token other than the one drawn teaches nothing
        let mut other = sampler.clone();
        other.accept(1 - sampled.id);
        let top = other.sample(&logits, None).unwrap().top;
        assert!((f64::from(top.iter().find(|t| t.id == 0).unwrap().prob()) - expected(aim)).abs() < 1e-5);
        sampler.accept(sampled.id);
        aim = 0.8 - if sampled.id == 0 { 0.7 } else { 0.3 };
    }
}
