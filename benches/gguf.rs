//! Opening a model file: mapping it, checking its header, and taking the strings of its vocabulary. Weights are not read.

use std::path::Path;

use bloomery_benches::{Criterion, OURS, Qwen3, criterion, large_vocabulary};
use bloomery_gguf::Gguf;
use criterion::{BenchmarkId, criterion_group, criterion_main};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bloomery-core/demo/bloomery-demo-q4_k_m.gguf");

fn gguf(criterion: &mut Criterion) {
    let large = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gguf.gguf");
    large_vocabulary(&large, &Qwen3::read()).expect("the model is complete");
    let mut group = criterion.benchmark_group("gguf open");
    for (name, path) in [("demo", Path::new(DEMO)), ("Qwen3 vocabulary", &large)] {
        group.bench_function(BenchmarkId::new(OURS, name), |bencher| {
            bencher.iter(|| Gguf::open(path).expect("the file is valid").metadata().len());
        });
    }
    group.finish();
}

criterion_group!(name = benches; config = criterion(); targets = gguf);
criterion_main!(benches);
