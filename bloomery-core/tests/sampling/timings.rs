//! Time for a token at a vocabulary of 151,936: `cargo test --release --test sampling -- --ignored --nocapture`.

use bloomery_core::sampling::{Mirostat, Sampler, SamplerKind, SamplingParams, Seed};
use std::time::Instant;

/// Bell-shaped around 0 with a few large ones, as a language model's are.
fn logits(n: usize) -> Vec<f32> {
    let mut x = 1u32;
    let mut uniform = || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 8) as f32 / (1 << 24) as f32
    };
    (0..n).map(|_| ((0..12).map(|_| uniform()).sum::<f32>() - 6.0) * 2.5).collect()
}

#[test]
#[ignore = "measures; asserts nothing"]
fn timings() {
    let logits = logits(151_936);
    let mask = vec![0xFFFF_FFFE_u32; 151_936usize.div_ceil(32)];
    let d = || SamplingParams { seed: Seed::Fixed(1), ..SamplingParams::default() };
    let cases = [
        ("greedy", SamplingParams { temperature: 0.0, ..d() }),
        ("defaults", d()),
        ("defaults, n_probs 5", SamplingParams { n_probs: 5, ..d() }),
        ("defaults, penalties, DRY", SamplingParams { repeat_penalty: 1.1, dry_multiplier: 0.8, ..d() }),
        ("top_n_sigma 1", SamplingParams { top_n_sigma: 1.0, ..d() }),
        ("top_k off", SamplingParams { top_k: 0, ..d() }),
        ("top_k off, typical 0.9", SamplingParams { top_k: 0, typical_p: 0.9, ..d() }),
        ("top_k, top_p, min_p off", SamplingParams { top_k: 0, top_p: 1.0, min_p: 0.0, ..d() }),
        ("no sampler", SamplingParams { samplers: vec![], ..d() }),
        (
            "min_p first",
            SamplingParams { samplers: vec![SamplerKind::MinP, SamplerKind::Temperature], ..d() },
        ),
        ("mirostat 1", SamplingParams { mirostat: Mirostat::V1, ..d() }),
        ("mirostat 2", SamplingParams { mirostat: Mirostat::V2, ..d() }),
    ];
    for (what, params) in cases {
        for (mask, note) in [(None, ""), (Some(mask.as_slice()), ", masked")] {
            let mut sampler = Sampler::new(&params, 4096).unwrap();
            let mut times: Vec<f64> = (0..300)
                .map(|_| {
                    let start = Instant::now();
                    let id = sampler.sample(&logits, mask).unwrap().id;
                    sampler.accept(id);
                    start.elapsed().as_secs_f64() * 1e6
                })
                .collect();
            times.sort_by(f64::total_cmp);
            println!("{what}{note}: median {:.0} us, 95 % {:.0} us", times[150], times[285]);
        }
    }
}
