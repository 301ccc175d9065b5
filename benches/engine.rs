//! The demo model: a prompt of 512 tokens, and one token at a time.

use bloomery_benches::{demo, ids};
use bloomery_core::Error;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const PROMPT: usize = 512;

fn prefill(criterion: &mut Criterion) -> Result<(), Error> {
    let engine = demo(PROMPT)?;
    let ids = ids(PROMPT, engine.model().vocab);
    let mut session = engine.session()?;
    let mut group = criterion.benchmark_group("prefill");
    group.throughput(Throughput::Elements(PROMPT as u64)).sample_size(20);
    group.bench_function("pp512", |bencher| {
        bencher.iter(|| {
            session.truncate(0).expect("an empty session is a shorter one");
            session.prefill(&ids).map(<[f32]>::len).expect("the prompt fits the context")
        });
    });
    group.finish();
    Ok(())
}

/// A step at the end of `depth` tokens; bytes are the weights it reads.
fn decode(criterion: &mut Criterion) -> Result<(), Error> {
    for depth in [1, PROMPT] {
        let engine = demo(depth + 1)?;
        let mut session = engine.session()?;
        session.prefill(&ids(depth, engine.model().vocab))?;
        let mut group = criterion.benchmark_group("decode");
        group.throughput(Throughput::Bytes(engine.bytes_per_token().0));
        group.bench_function(format!("depth {depth}"), |bencher| {
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

criterion_group!(benches, engine);
criterion_main!(benches);
