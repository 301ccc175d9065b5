//! Parameters at and past their ends, broken logits, names.

use super::survivors;
use bloomery_core::sampling::{
    Breakers, Mirostat, Sampler, SamplerKind, SamplingError, SamplingParams, Seed,
};

fn ids(params: &SamplingParams, logits: &[f32]) -> Vec<u32> {
    survivors(params, &[], &Breakers::default(), logits).iter().map(|t| t.0).collect()
}

const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, 3.0, -1.0];

fn off() -> SamplingParams {
    SamplingParams { top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplingParams::default() }
}

#[test]
fn values_past_the_ends() {
    let all = [1, 3, 2, 0, 4];
    assert_eq!(ids(&off(), &LOGITS), all);
    for top_k in [0, -1, i32::MIN, 5, i32::MAX] {
        assert_eq!(ids(&SamplingParams { top_k, ..off() }, &LOGITS), all);
    }
    assert_eq!(ids(&SamplingParams { top_k: 1, ..off() }, &LOGITS), [1], "ties go to the lower id");
    for top_p in [0.0, -1.0] {
        assert_eq!(ids(&SamplingParams { top_p, ..off() }, &LOGITS), [1]);
        assert_eq!(ids(&SamplingParams { top_p, min_keep: 3, ..off() }, &LOGITS), [1, 3, 2]);
        assert_eq!(ids(&SamplingParams { top_p, min_keep: u32::MAX, ..off() }, &LOGITS), all);
    }
    assert_eq!(ids(&SamplingParams { top_p: 7.0, min_p: -7.0, typical_p: 2.0, ..off() }, &LOGITS), all);
    assert_eq!(ids(&SamplingParams { min_p: 1.0, ..off() }, &LOGITS), [1, 3]);
    assert_eq!(ids(&SamplingParams { min_p: 9.0, ..off() }, &LOGITS), [1]);
    for top_n_sigma in [0.0, -1.0] {
        assert_eq!(ids(&SamplingParams { top_n_sigma, ..off() }, &LOGITS), all);
    }
    assert_eq!(ids(&SamplingParams { top_n_sigma: 1e-6, ..off() }, &LOGITS), [1, 3]);
    for xtc_threshold in [0.51, 1.0] {
        let xtc = SamplingParams { xtc_probability: 1.0, xtc_threshold, ..off() };
        assert_eq!(ids(&xtc, &LOGITS), all);
    }
    let xtc = SamplingParams { xtc_probability: 1.0, xtc_threshold: 0.0, ..off() };
    assert_eq!(ids(&xtc, &LOGITS), [4]);
    assert_eq!(ids(&SamplingParams { min_keep: 2, ..xtc }, &LOGITS), all);
}

#[test]
fn temperatures() {
    for temperature in [0.0, -0.0, -3.0, f32::MIN, f32::from_bits(1)] {
        assert_eq!(ids(&SamplingParams { temperature, ..off() }, &LOGITS), [1]);
        assert_eq!(ids(&SamplingParams { temperature, ..SamplingParams::default() }, &LOGITS), [1]);
    }
    let flat =
        survivors(&SamplingParams { temperature: f32::MAX, ..off() }, &[], &Breakers::default(), &LOGITS);
    assert!(flat.iter().all(|t| (t.1 - 0.2).abs() < 1e-6));
    // a range makes temperature 0 a middle, not greedy
    let dynamic = SamplingParams { temperature: 0.0, dynatemp_range: 1.0, ..off() };
    assert_eq!(ids(&dynamic, &LOGITS).len(), 5);
    assert_eq!(ids(&dynamic, &[1.0]), [0]);
    for dynatemp_exponent in [-40.0, 0.0, 1e30] {
        assert!(!ids(&SamplingParams { dynatemp_exponent, ..dynamic.clone() }, &[90.0, -90.0]).is_empty());
    }
}

#[test]
fn extreme_logits_stay_finite() {
    let big = [f32::MAX, f32::MIN, 0.0, f32::NEG_INFINITY, f32::MAX];
    for params in [
        off(),
        SamplingParams::default(),
        SamplingParams { temperature: 1e-30, ..off() },
        SamplingParams { repeat_penalty: 1e-30, frequency_penalty: -f32::MAX, ..off() },
        SamplingParams { logit_bias: vec![(0, f32::MAX), (1, f32::MIN)], ..off() },
        SamplingParams { typical_p: 0.5, top_n_sigma: 1.0, xtc_probability: 1.0, ..off() },
        SamplingParams { dynatemp_range: 0.5, ..off() },
        SamplingParams { mirostat: Mirostat::V1, ..off() },
        SamplingParams { mirostat: Mirostat::V2, ..off() },
        SamplingParams { samplers: vec![SamplerKind::AdaptiveP], adaptive_target: 0.3, ..off() },
    ] {
        let params = SamplingParams { n_probs: 3, ..params };
        let mut sampler = Sampler::new(&params, 8).unwrap();
        for _ in 0..20 {
            let sampled = sampler.sample(&big, None).unwrap();
            assert_ne!(sampled.id, 3);
            assert!(
                sampled.logprob.unwrap().is_finite() && sampled.top.iter().all(|t| t.logprob.is_finite())
            );
            sampler.accept(sampled.id);
        }
    }
}

#[test]
fn one_token() {
    for mirostat in [Mirostat::Off, Mirostat::V1, Mirostat::V2] {
        let mut sampler = Sampler::new(&SamplingParams { mirostat, ..SamplingParams::default() }, 0).unwrap();
        for _ in 0..50 {
            assert_eq!(sampler.sample(&[-4.0], None).unwrap().id, 0);
        }
    }
}

#[test]
fn mirostat_ignores_the_chain() {
    let params = SamplingParams {
        mirostat: Mirostat::V2,
        mirostat_tau: 50.0,
        top_k: 1,
        presence_penalty: 50.0,
        temperature: 1.0,
        logit_bias: vec![(4, f32::NEG_INFINITY)],
        ..off()
    };
    let s = survivors(&params, &[1], &Breakers::default(), &LOGITS);
    assert_eq!(s.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 3, 2, 0]);
    let greedy = SamplingParams { temperature: 0.0, ..params };
    assert_eq!(ids(&greedy, &LOGITS), [1]);
}

#[test]
fn windows() {
    let s = |last_n, history: &[u32]| {
        let p = SamplingParams { repeat_last_n: last_n, presence_penalty: 9.0, ..SamplingParams::greedy() };
        let mut sampler = Sampler::new(&p, 3).unwrap();
        history.iter().for_each(|&id| sampler.accept(id));
        sampler.sample(&[2.0, 1.0], None).unwrap().id
    };
    assert_eq!([s(0, &[0]), s(1, &[0]), s(1, &[0, 5])], [0, 1, 0]);
    // -1 is the context, 3 here
    assert_eq!([s(-1, &[0, 5, 5]), s(-1, &[0, 5, 5, 5])], [1, 0]);
}

#[test]
fn refused_parameters() {
    let name = |params: SamplingParams| match Sampler::new(&params, 0) {
        Err(SamplingError::Parameter { name, .. }) => name,
        other => panic!("{other:?}"),
    };
    let d = SamplingParams::default;
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(name(SamplingParams { temperature: bad, ..d() }), "temperature");
        assert_eq!(name(SamplingParams { top_p: bad, ..d() }), "top_p");
        assert_eq!(name(SamplingParams { min_p: bad, ..d() }), "min_p");
        assert_eq!(name(SamplingParams { typical_p: bad, ..d() }), "typical_p");
        assert_eq!(name(SamplingParams { top_n_sigma: bad, ..d() }), "top_n_sigma");
        assert_eq!(name(SamplingParams { xtc_probability: bad, ..d() }), "xtc_probability");
        assert_eq!(name(SamplingParams { xtc_threshold: bad, ..d() }), "xtc_threshold");
        assert_eq!(name(SamplingParams { dynatemp_range: bad, ..d() }), "dynatemp_range");
        assert_eq!(name(SamplingParams { dynatemp_exponent: bad, ..d() }), "dynatemp_exponent");
        assert_eq!(name(SamplingParams { frequency_penalty: bad, ..d() }), "frequency_penalty");
        assert_eq!(name(SamplingParams { presence_penalty: bad, ..d() }), "presence_penalty");
        assert_eq!(name(SamplingParams { dry_multiplier: bad, ..d() }), "dry_multiplier");
        assert_eq!(name(SamplingParams { dry_base: bad, ..d() }), "dry_base");
        assert_eq!(name(SamplingParams { mirostat_tau: bad, ..d() }), "mirostat_tau");
        assert_eq!(name(SamplingParams { mirostat_eta: bad, ..d() }), "mirostat_eta");
        assert_eq!(name(SamplingParams { adaptive_target: bad, ..d() }), "adaptive_target");
    }
    for bad in [0.0, -1.0, f32::NAN, f32::from_bits(1)] {
        assert_eq!(name(SamplingParams { repeat_penalty: bad, ..d() }), "repeat_penalty");
    }
    for bad in [-0.1, 1.0, f32::NAN] {
        assert_eq!(name(SamplingParams { adaptive_decay: bad, ..d() }), "adaptive_decay");
    }
    assert_eq!(name(SamplingParams { repeat_last_n: -2, ..d() }), "repeat_last_n");
    assert_eq!(name(SamplingParams { dry_penalty_last_n: -2, ..d() }), "dry_penalty_last_n");
    for bad in [f32::NAN, f32::INFINITY] {
        let error = Sampler::new(&SamplingParams { logit_bias: vec![(3, 1.0), (7, bad)], ..d() }, 0);
        assert!(matches!(error, Err(SamplingError::Bias { token: 7, .. })));
    }
    let shown = Sampler::new(&SamplingParams { top_p: f32::NAN, ..d() }, 0).unwrap_err().to_string();
    assert_eq!(shown, "top_p is NaN: expected a finite number");
}

#[test]
fn broken_logits_and_masks() {
    for params in [SamplingParams::default(), SamplingParams::greedy()] {
        let mut s = Sampler::new(&params, 0).unwrap();
        for bad in [f32::NAN, f32::INFINITY] {
            let error = s.sample(&[0.0, bad, bad], None).unwrap_err();
            assert!(matches!(error, SamplingError::Logit { token: 1, vocab: 3, .. }), "{error}");
        }
        let dead = [f32::NEG_INFINITY; 40];
        assert_eq!(s.sample(&dead, None), Err(SamplingError::NoCandidate { allowed: 40, vocab: 40 }));
        assert_eq!(s.sample(&[], None), Err(SamplingError::NoCandidate { allowed: 0, vocab: 0 }));
        let zeros = [0.0; 40];
        let none = SamplingError::NoCandidate { allowed: 0, vocab: 40 };
        // bit 40 lies past the vocabulary
        assert_eq!(s.sample(&zeros, Some(&[0, 1 << 8])), Err(none));
        let short = SamplingError::MaskLength { words: 1, needed: 2, vocab: 40 };
        assert_eq!(s.sample(&zeros, Some(&[u32::MAX])), Err(short));
        // an error leaves a sampler that works
        assert_eq!(s.sample(&zeros, Some(&[0, 1 << 7])).unwrap().id, 39);
    }
    for params in [
        SamplingParams { mirostat: Mirostat::V1, ..off() },
        SamplingParams { mirostat: Mirostat::V2, ..off() },
        SamplingParams { samplers: vec![SamplerKind::AdaptiveP], adaptive_target: 0.5, ..off() },
        SamplingParams { typical_p: 0.5, ..off() },
        SamplingParams { min_p: 0.5, ..off() },
        SamplingParams { top_p: 0.5, ..off() },
        SamplingParams { top_n_sigma: 1.0, dynatemp_range: 1.0, xtc_probability: 1.0, ..off() },
        off(),
    ] {
        let mut s = Sampler::new(&params, 0).unwrap();
        let error = s.sample(&[0.0, 1.0], Some(&[0]));
        assert_eq!(error, Err(SamplingError::NoCandidate { allowed: 0, vocab: 2 }));
    }
}

#[test]
fn names_and_letters() {
    let letters: String = SamplerKind::DEFAULT_ORDER.iter().map(|k| k.letter()).collect();
    assert_eq!(letters, "edskypmxt");
    let names: Vec<_> = SamplerKind::DEFAULT_ORDER.iter().map(|k| k.name()).collect();
    assert_eq!(names.join(";"), "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature");
    for kind in SamplerKind::DEFAULT_ORDER.into_iter().chain([SamplerKind::AdaptiveP]) {
        assert_eq!(SamplerKind::from_name(kind.name()), Some(kind));
        assert_eq!(SamplerKind::from_name(&kind.name().replace('_', "-")), Some(kind));
        assert_eq!(SamplerKind::from_name(&kind.name().replace('_', "").to_uppercase()), Some(kind));
        assert_eq!(SamplerKind::from_letter(kind.letter()), Some(kind));
    }
    assert_eq!(SamplerKind::from_name("nucleus"), Some(SamplerKind::TopP));
    assert_eq!(SamplerKind::from_name("temp"), Some(SamplerKind::Temperature));
    assert_eq!(SamplerKind::from_name("typ"), Some(SamplerKind::TypicalP));
    assert_eq!(SamplerKind::from_name("magic"), None);
    assert_eq!(SamplerKind::from_letter('z'), None);
    assert_eq!(SamplingParams::default().seed, Seed::Random);
}
