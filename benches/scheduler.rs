//! What the scheduler adds to steps: 32 tokens for each of several streams of the demo model, chosen greedily. Beside it the
//! same steps called one after the other, with the same sampler, and without text, events and another thread.

use std::sync::mpsc::{self, Receiver, Sender};

use bloomery_benches::{Criterion, OURS, criterion, demo};
use bloomery_core::sampling::{Sampler, SamplingParams};
use bloomery_core::scheduler::{Event, Job, Scheduler, SchedulerOptions, Sink, SinkState};
use bloomery_core::{Engine, Error, Logits, Params, Session, Turn};
use criterion::{BenchmarkId, Throughput, criterion_group, criterion_main};

const TOKENS: usize = 32;

struct Channel(Sender<Event>);

impl Sink for Channel {
    fn state(&self) -> SinkState {
        SinkState::Open
    }

    fn send(&mut self, event: Event) {
        // The reader stays until the end.
        let _ = self.0.send(event);
    }
}

fn engine(streams: usize) -> Result<Engine, Error> {
    Ok(demo(64).sessions(streams).plan()?.load(|_| {})?)
}

/// Submits a job for each stream and reads events until all are done.
fn scheduled(scheduler: &Scheduler, streams: usize) -> usize {
    let (sender, events): (Sender<Event>, Receiver<Event>) = mpsc::channel();
    for stream in 0..streams {
        let params = Params { max_tokens: Some(TOKENS), ignore_end: true, ..Params::greedy() };
        let mut job = Job::new(vec![100 + stream as u32], params, Box::new(Channel(sender.clone())));
        job.reuse = false;
        scheduler.submit(job).expect("there is a slot");
    }
    drop(sender);
    let tokens = |event| match event {
        Event::Done(outcome) => outcome.progress.generated,
        _ => 0,
    };
    events.into_iter().map(tokens).sum()
}

/// The same tokens in as many steps.
fn stepped(engine: &Engine, sessions: &mut [Session], samplers: &mut [Sampler]) -> Result<usize, Error> {
    let mut last: Vec<[u32; 1]> = (0..sessions.len()).map(|stream| [100 + stream as u32]).collect();
    for session in sessions.iter_mut() {
        session.truncate(0)?;
    }
    for _ in 0..TOKENS {
        let turns = sessions.iter_mut().zip(&last).map(|(session, id)| Turn::new(session, id, Logits::Last));
        let mut turns: Vec<Turn<'_>> = turns.collect();
        engine.step(&mut turns)?;
        let mut chosen = Vec::with_capacity(turns.len());
        for (turn, sampler) in turns.iter().zip(samplers.iter_mut()) {
            let id = sampler.sample(turn.logits(), None).expect("the logits are finite").id;
            sampler.accept(id);
            chosen.push([id]);
        }
        drop(turns);
        last = chosen;
    }
    Ok(TOKENS * sessions.len())
}

fn streams(criterion: &mut Criterion, streams: usize) -> Result<(), Error> {
    let case = if streams == 1 { "1 stream".to_owned() } else { format!("{streams} streams") };
    let mut group = criterion.benchmark_group("scheduler");
    group.sample_size(10);
    let options = SchedulerOptions { slots: streams, ..SchedulerOptions::default() };
    let scheduler = Scheduler::new(engine(streams)?, options)?;
    // A stream that is inside a character goes on to its end.
    let tokens = scheduled(&scheduler, streams);
    assert!((TOKENS * streams..=(TOKENS + 4) * streams).contains(&tokens), "{tokens} tokens");
    group.throughput(Throughput::Elements(tokens as u64));
    group.bench_function(BenchmarkId::new(OURS, &case), |bencher| {
        bencher.iter(|| scheduled(&scheduler, streams));
    });
    let engine = engine(streams)?;
    let mut sessions = (0..streams).map(|_| engine.session()).collect::<Result<Vec<_>, _>>()?;
    let sampler = Sampler::new(&SamplingParams::greedy(), 64).expect("the parameters are in range");
    let mut samplers = vec![sampler; streams];
    group.throughput(Throughput::Elements((TOKENS * streams) as u64));
    group.bench_function(BenchmarkId::new("steps alone", &case), |bencher| {
        bencher.iter(|| stepped(&engine, &mut sessions, &mut samplers).expect("the demo model runs"));
    });
    group.finish();
    Ok(())
}

fn scheduler(criterion: &mut Criterion) {
    for count in [1, 8, 32] {
        streams(criterion, count).expect("the demo model runs");
    }
}

criterion_group!(name = benches; config = criterion(); targets = scheduler);
criterion_main!(benches);
