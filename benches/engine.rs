//! The demo model on one thread: a prompt of 512 tokens, and one token at a time after short and long texts.

use bloomery_benches::{Criterion, OURS, criterion, demo, ids};
use bloomery_core::Error;
use criterion::{BenchmarkId, Throughput, criterion_group, criterion_main};

const PROMPT: usize = 512;

fn prefill(criterion: &mut Criterion) -> Result<(), Error> {
    let engine = demo(PROMPT).plan()?.load(|_| {})?;
    let ids = ids(PROMPT, engine.model().vocab);
    let mut session = engine.session()?;
    let mut group = criterion.benchmark_group("demo model");
    group.throughput(Throughput::Elements(PROMPT as u64));
    group.bench_function(BenchmarkId::new(OURS, "prompt of 512"), |bencher| {
        bencher.iter(|| {
            session.truncate(0).expect("an empty session is a shorter one");
            session.prefill(&ids).map(<[f32]>::len).expect("the prompt fits the context")
        });
    });
    group.finish();
    Ok(())
}

/// A step at the end of `depth` tokens.
fn decode(criterion: &mut Criterion) -> Result<(), Error> {
    for depth in [1, PROMPT] {
        let engine = demo(depth + 1).plan()?.load(|_| {})?;
        let mut session = engine.session()?;
        session.prefill(&ids(depth, engine.model().vocab))?;
        let mut group = criterion.benchmark_group("demo model");
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new(OURS, format!("token after {depth}")), |bencher| {
            bencher.iter(|| {
                session.truncate(depth).expect("the session is that long");
                session.step(17).map(<[f32]>::len).expect("one position is left")
            });
        });
        group.finish();
    }
    Ok(())
}

fn engine(criterion: &mut Criterion) {
    prefill(criterion).expect("the demo model runs");
    decode(criterion).expect("the demo model runs");
}

criterion_group!(name = benches; config = criterion(); targets = engine);
criterion_main!(benches);
