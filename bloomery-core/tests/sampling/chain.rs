//! Order of the chain, worked out by hand.

use super::survivors;
use bloomery_core::sampling::{Breakers, SamplerKind, SamplingParams};

/// Logits of these probabilities.
fn ln(p: &[f32]) -> Vec<f32> {
    p.iter().map(|p| p.ln()).collect()
}

fn kept(params: &SamplingParams, history: &[u32], p: &[f32]) -> Vec<u32> {
    survivors(params, history, &Breakers::default(), &ln(p)).iter().map(|t| t.0).collect()
}

/// Nothing but the samplers listed, which a test then switches on.
fn only(samplers: &[SamplerKind]) -> SamplingParams {
    SamplingParams { samplers: samplers.to_vec(), ..SamplingParams::default() }
}

use SamplerKind::{MinP, Penalties, Temperature, TopK, TopP, TypicalP, Xtc};

#[test]
fn top_k_renormalises_before_top_p() {
    let p = [0.4, 0.3, 0.2, 0.1];
    let params = SamplingParams { top_k: 2, top_p: 0.55, ..only(&[]) };
    // of two tokens the first has 0.571; of all four 0.4
    assert_eq!(kept(&SamplingParams { samplers: vec![TopK, TopP], ..params.clone() }, &[], &p), [0]);
    assert_eq!(kept(&SamplingParams { samplers: vec![TopP, TopK], ..params }, &[], &p), [0, 1]);
}

#[test]
fn temperature_comes_after_min_p() {
    let p = [0.7, 0.25, 0.05];
    // as they are, token 2 is at 0.071 of the best; at temperature 0.5 it would be at 0.0051
    let params = SamplingParams { temperature: 0.5, min_p: 0.06, top_p: 1.0, ..SamplingParams::default() };
    assert_eq!(kept(&params, &[], &p), [0, 1, 2]);
    let early = SamplingParams { samplers: vec![Temperature, MinP], ..params };
    assert_eq!(kept(&early, &[], &p), [0, 1]);
}

#[test]
fn penalties_come_before_top_k() {
    let p = [0.5, 0.3, 0.2];
    let params = SamplingParams { presence_penalty: 5.0, top_k: 1, ..SamplingParams::default() };
    assert_eq!(kept(&params, &[0], &p), [1]);
    let late = SamplingParams { samplers: vec![TopK, Penalties], ..params };
    assert_eq!(kept(&late, &[0], &p), [0]);
}

#[test]
fn bias_comes_before_everything() {
    let p = [0.5, 0.3, 0.2];
    let params = SamplingParams { logit_bias: vec![(2, 3.0)], top_k: 1, ..SamplingParams::default() };
    assert_eq!(kept(&params, &[], &p), [2]);
    // also where the chain is empty; twice adds up; outside the vocabulary is nothing
    let twice = SamplingParams { logit_bias: vec![(2, 3.0), (2, -3.0), (9, 1.0)], ..only(&[]) };
    assert_eq!(kept(&twice, &[], &p), [0, 1, 2]);
    let never = SamplingParams { logit_bias: vec![(0, f32::NEG_INFINITY)], ..only(&[]) };
    assert_eq!(kept(&never, &[], &p), [1, 2]);
}

#[test]
fn xtc_may_take_the_best_from_greedy() {
    let p = [0.5, 0.3, 0.15, 0.05];
    let greedy = SamplingParams { top_p: 1.0, min_p: 0.0, ..SamplingParams::greedy() };
    assert_eq!(kept(&greedy, &[], &p), [0]);
    let xtc = SamplingParams { xtc_probability: 1.0, ..greedy.clone() };
    assert_eq!(kept(&xtc, &[], &p), [2]);
    // what comes after the temperature finds one candidate
    let late = SamplingParams { samplers: vec![Temperature, Xtc], ..xtc.clone() };
    assert_eq!(kept(&late, &[], &p), [0]);
    // top_k before XTC matters to it, after it not
    let two = SamplingParams { top_k: 2, ..xtc };
    assert_eq!(kept(&two, &[], &p), [1]);
    let after = SamplingParams { samplers: vec![Xtc, TopK, Temperature], ..two };
    assert_eq!(kept(&after, &[], &p), [2]);
}

#[test]
fn typical_may_take_the_best_from_greedy() {
    // entropy 1.24 nats: the surprise of token 1 (1.27) is nearest
    let p = [0.5, 0.28, 0.14, 0.06, 0.02];
    let params = SamplingParams { typical_p: 0.2, ..SamplingParams::greedy() };
    assert_eq!(kept(&SamplingParams { samplers: vec![TypicalP, Temperature], ..params }, &[], &p), [1]);
}

#[test]
fn a_kind_listed_twice_acts_twice() {
    let params = SamplingParams { temperature: 0.5, ..only(&[Temperature, Temperature]) };
    let twice = survivors(&params, &[], &Breakers::default(), &[1.0, 0.0]);
    assert!((twice[0].1 - 1.0 / (1.0 + (-4f64).exp())).abs() < 1e-6);
}

#[test]
fn repeat_penalty_by_sign() {
    let params = SamplingParams {
        repeat_penalty: 2.0,
        frequency_penalty: 0.25,
        presence_penalty: 0.5,
        ..only(&[Penalties])
    };
    // token 0: 3 / 2 - 2 * 0.25 - 0.5 = 0.5; token 1: -1 * 2 - 0.25 - 0.5 = -2.75; token 2 stays at 0
    let s = survivors(&params, &[0, 1, 0], &Breakers::default(), &[3.0, -1.0, 0.0]);
    assert_eq!(s.iter().map(|t| t.0).collect::<Vec<_>>(), [0, 2, 1]);
    assert!(((s[0].1 / s[1].1).ln() - 0.5).abs() < 1e-5);
    assert!(((s[2].1 / s[1].1).ln() + 2.75).abs() < 1e-5);
}

#[test]
fn dry_by_hand() {
    // 1 2 3 9 1 2 3: emitting 9 would make a repetition of 4; its penalty is 1.5^(3-2)
    let params = SamplingParams { dry_multiplier: 1.0, dry_base: 1.5, ..only(&[SamplerKind::Dry]) };
    let logits = [0.0; 10];
    let history = [1, 2, 3, 9, 1, 2, 3];
    let penalty = |breakers: Breakers| {
        let s = survivors(&params, &history, &breakers, &logits);
        (s[0].1 / s.iter().find(|t| t.0 == 9).unwrap().1).ln()
    };
    assert!((penalty(Breakers::default()) - 1.5).abs() < 1e-5);
    // a breaker of 2 leaves one token of repetition, of 1 two
    assert_eq!(penalty(Breakers::from_sequences([vec![2]])), 0.0);
    assert!((penalty(Breakers::from_sequences([vec![1]])) - 1.0).abs() < 1e-5);
    // a breaker itself is never penalised
    assert_eq!(penalty(Breakers::from_sequences([vec![9]])), 0.0);
}
