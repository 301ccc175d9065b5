//! Drawing a token from 151,936 logits, Qwen3's vocabulary, through chains of samplers.

use bloomery_benches::{Criterion, criterion, ids, logits};
use bloomery_core::sampling::{MOST_CANDIDATES, Needs, Sampler, SamplingParams, Seed, TopLogits};
use criterion::{BenchmarkId, criterion_group, criterion_main};

const VOCAB: usize = 151_936;

/// Every sampler off but for what a case sets.
fn off() -> SamplingParams {
    SamplingParams { top_k: 0, top_p: 1.0, min_p: 0.0, temperature: 1.0, ..SamplingParams::default() }
}

fn cases() -> [(&'static str, SamplingParams); 9] {
    let defaults = SamplingParams::default();
    [
        ("greedy", SamplingParams::greedy()),
        ("temperature", SamplingParams { temperature: 0.8, ..off() }),
        ("top-k 40", SamplingParams { top_k: 40, ..off() }),
        ("top-p 0.95", SamplingParams { top_p: 0.95, ..off() }),
        ("min-p 0.05", SamplingParams { min_p: 0.05, ..off() }),
        ("defaults", defaults.clone()),
        ("penalties", SamplingParams { repeat_penalty: 1.1, frequency_penalty: 0.1, ..defaults.clone() }),
        ("DRY", SamplingParams { dry_multiplier: 0.8, dry_penalty_last_n: -1, ..defaults.clone() }),
        ("top 10 reported", SamplingParams { n_probs: 10, ..defaults }),
    ]
}

fn sampler(criterion: &mut Criterion) {
    let logits = logits(VOCAB);
    let mut group = criterion.benchmark_group("sampler");
    for (name, params) in cases() {
        let params = SamplingParams { seed: Seed::Fixed(1), ..params };
        let mut sampler = Sampler::new(&params, 4096).expect("the parameters are in range");
        ids(4096, VOCAB).into_iter().for_each(|id| sampler.accept(id));
        group.bench_function(BenchmarkId::new("all logits", name), |bencher| {
            bencher.iter(|| sampler.sample(&logits, None).expect("the logits are finite").id);
        });
        // What a card selects.
        if let Needs::Top(k) = sampler.needs() {
            let top = TopLogits::of(&logits, k.min(MOST_CANDIDATES));
            group.bench_function(BenchmarkId::new("selected on a card", name), |bencher| {
                bencher.iter(|| sampler.sample_top(&top).expect("the logits are finite").id);
            });
        }
    }
    group.finish();
}

criterion_group!(name = benches; config = criterion(); targets = sampler);
criterion_main!(benches);
