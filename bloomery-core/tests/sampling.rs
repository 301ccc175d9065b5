//! The sampler chain against a naive oracle, recorded llama.cpp results, statistics and hand-made cases.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "sampling/candidates.rs"]
mod candidates;
#[path = "sampling/chain.rs"]
mod chain;
#[path = "sampling/draws.rs"]
mod draws;
#[path = "sampling/edges.rs"]
mod edges;
#[path = "sampling/oracle.rs"]
mod oracle;
#[path = "sampling/recorded.rs"]
mod recorded;
#[path = "sampling/timings.rs"]
mod timings;

use bloomery_core::sampling::{Breakers, Sampler, SamplingParams, Seed};

/// The distribution after the chain, best first: (id, probability).
fn survivors(
    params: &SamplingParams,
    history: &[u32],
    breakers: &Breakers,
    logits: &[f32],
) -> Vec<(u32, f64)> {
    let params = SamplingParams {
        n_probs: logits.len(),
        post_sampling_probs: true,
        seed: Seed::Fixed(1),
        ..params.clone()
    };
    let mut sampler = Sampler::new(&params, 100).unwrap().with_breakers(breakers.clone());
    history.iter().for_each(|&id| sampler.accept(id));
    let sampled = sampler.sample(logits, None).unwrap();
    sampled.top.iter().map(|t| (t.id, f64::from(t.logprob).exp())).collect()
}

/// The same tokens in the same order with probabilities within `relative`. Tokens below 1e-30, where
/// f32 weights reach 0, may be missing.
fn assert_close(ours: &[(u32, f64)], expected: &[(u32, f64)], relative: f64, what: &str) {
    let expected: Vec<_> = expected.iter().filter(|t| t.1 > 1e-30).collect();
    let ours: Vec<_> = ours.iter().filter(|t| t.1 > 1e-30).collect();
    let ids = |v: &[&(u32, f64)]| v.iter().map(|t| t.0).collect::<Vec<_>>();
    assert_eq!(ids(&ours), ids(&expected), "{what}\n{ours:?}\n{expected:?}");
    for (a, b) in ours.iter().zip(&expected) {
        assert!((a.1 - b.1).abs() <= relative * b.1, "{what}: {a:?} {b:?}");
    }
}
