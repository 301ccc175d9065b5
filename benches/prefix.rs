//! Finding the longest known beginning of a prompt and taking it over: 576 of 577 tokens, nine pages, of which the first eight
//! begin every prompt that is known.

use bloomery_benches::{Criterion, OURS, criterion, demo, ids};
use bloomery_core::{Error, Session};
use criterion::{BenchmarkId, criterion_group, criterion_main};

/// Tokens of a page.
const PAGE: usize = 64;
const COMMON: usize = 8 * PAGE;
const LENGTH: usize = COMMON + PAGE + 1;

/// Prompt `index`: the common beginning and a page of its own.
fn prompt(index: usize, vocab: usize) -> Vec<u32> {
    let mut prompt = ids(LENGTH, vocab);
    prompt[COMMON] = index as u32;
    prompt
}

/// A session of an engine that knows `prompts` prompts.
fn knowing(prompts: usize) -> Result<Session, Error> {
    let engine = demo(1024).pool(COMMON + (prompts + 20) * PAGE).plan()?.load(|_| {})?;
    let mut session = engine.session()?;
    for index in 0..prompts {
        let prompt = prompt(index, engine.model().vocab);
        let known = session.adopt(&prompt)?;
        session.prefill(&prompt[known..])?;
        session.publish();
    }
    session.truncate(0)?;
    Ok(session)
}

fn prefix(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("prefix");
    for prompts in [1, 32, 256] {
        let mut session = knowing(prompts).expect("the demo model runs");
        let prompt = prompt(prompts / 2, session.engine().model().vocab);
        let case =
            if prompts == 1 { "1 known prompt".to_owned() } else { format!("{prompts} known prompts") };
        group.bench_function(BenchmarkId::new(OURS, case), |bencher| {
            bencher.iter(|| {
                let known = session.adopt(&prompt).expect("no session is lost");
                assert_eq!(known, LENGTH - 1);
                session.truncate(0).expect("an empty session is a shorter one");
            });
        });
    }
    group.finish();
}

criterion_group!(name = benches; config = criterion(); targets = prefix);
criterion_main!(benches);
