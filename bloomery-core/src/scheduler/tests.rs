//! What a scheduler tells of experts on two sides, with a backend that only says it had some.

use std::mem;
use std::sync::mpsc;

use super::{Event, Job, Outcome, Scheduler, SchedulerOptions, Sink, SinkState};
use crate::backend::{Answer, Backend, Batch};
use crate::engine::{Engine, Logits, Turn};
use crate::error::EngineError;
use crate::generate::Params;
use crate::plan::ModelSource;
use crate::residency::Traffic;
use crate::state::PageId;
use crate::units::Bytes;

/// Counts a step of every row as eight choices, of which five were on the card.
struct Counting {
    inner: Box<dyn Backend>,
    traffic: Traffic,
}

impl Backend for Counting {
    fn step(&mut self, batch: Batch<'_>) -> Result<Answer<'_>, EngineError> {
        let rows = batch.tokens.len() as u64;
        self.traffic.chosen += 8 * rows;
        self.traffic.on_card += 5 * rows;
        self.traffic.host_read = Bytes(self.traffic.host_read.0 + 1000);
        self.traffic.served_steps += 1;
        self.inner.step(batch)
    }

    fn copy_page(&mut self, from: PageId, to: PageId) {
        self.inner.copy_page(from, to);
    }

    fn read_page(&mut self, page: PageId, out: &mut Vec<u8>) {
        self.inner.read_page(page, out);
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        self.inner.write_page(page, bytes);
    }

    fn page_bytes(&self) -> usize {
        self.inner.page_bytes()
    }

    fn traffic(&self) -> Option<Traffic> {
        Some(self.traffic)
    }
}

/// Stands for a backend while it is being wrapped.
struct Nothing;

impl Backend for Nothing {
    fn step(&mut self, _: Batch<'_>) -> Result<Answer<'_>, EngineError> {
        Err(EngineError::Poisoned)
    }

    fn copy_page(&mut self, _: PageId, _: PageId) {}

    fn read_page(&mut self, _: PageId, _: &mut Vec<u8>) {}

    fn write_page(&mut self, _: PageId, _: &[u8]) {}

    fn page_bytes(&self) -> usize {
        0
    }
}

struct Channel(mpsc::Sender<Event>);

impl Sink for Channel {
    fn state(&self) -> SinkState {
        SinkState::Open
    }

    fn send(&mut self, event: Event) {
        let _ = self.0.send(event);
    }
}

fn engine() -> Engine {
    let engine = Engine::builder(ModelSource::demo()).sessions(3).plan().unwrap().load(|_| {}).unwrap();
    let mut backend = engine.inner.backend().unwrap();
    let inner = mem::replace(&mut *backend, Box::new(Nothing));
    let traffic = Traffic { card: 1, experts: 64, slots: 40, ..Traffic::default() };
    *backend = Box::new(Counting { inner, traffic });
    drop(backend);
    engine
}

fn submit(scheduler: &Scheduler, tokens: usize) -> mpsc::Receiver<Event> {
    let (sender, events) = mpsc::channel();
    let params = Params { max_tokens: Some(tokens), ignore_end: true, ..Params::greedy() };
    let job = Job::new(vec![2638, 711, 258, tokens as u32], params, Box::new(Channel(sender)));
    scheduler.submit(job).unwrap();
    events
}

fn outcome(events: &mpsc::Receiver<Event>) -> Outcome {
    loop {
        match events.recv().unwrap() {
            Event::Done(outcome) => return outcome,
            Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

#[test]
fn a_job_has_the_traffic_of_its_own_steps() {
    let engine = engine();
    let scheduler =
        Scheduler::new(engine.clone(), SchedulerOptions { slots: 2, ..Default::default() }).unwrap();
    let before = scheduler.status().traffic.unwrap();
    assert_eq!((before.card, before.slots, before.chosen), (1, 40, 0));
    let first = outcome(&submit(&scheduler, 6)).progress.traffic.unwrap();
    assert!(first.served_steps >= 2 && first.chosen >= 8 * 4, "{first:?}");
    assert_eq!(first.hit_rate(), 0.625);
    assert_eq!((first.experts, first.host_read), (64, Bytes(1000 * first.served_steps)));
    assert_eq!(scheduler.status().traffic, Some(first));
    // Somebody else's step, which is no job's.
    let mut session = engine.session().unwrap();
    engine.step(&mut [Turn::new(&mut session, &[258, 561], Logits::Last)]).unwrap();
    let second = outcome(&submit(&scheduler, 9)).progress.traffic.unwrap();
    let now = scheduler.status().traffic.unwrap();
    assert_eq!(Some(now), engine.traffic().unwrap());
    assert_eq!(now.chosen, first.chosen + 2 * 8 + second.chosen);
    assert_eq!(now.served_steps, first.served_steps + 1 + second.served_steps);
}

#[test]
fn jobs_of_a_step_share_what_it_did() {
    let scheduler = Scheduler::new(engine(), SchedulerOptions { slots: 2, ..Default::default() }).unwrap();
    let (long, short) = (submit(&scheduler, 300), submit(&scheduler, 40));
    let of = |events| outcome(events).progress.traffic.unwrap();
    let (short, long) = (of(&short), of(&long));
    let all = scheduler.status().traffic.unwrap();
    assert_eq!(all.since(&long).served_steps, 0, "the long one had a part in every step: {all:?} {long:?}");
    assert!(short.served_steps < long.served_steps);
}

#[test]
fn nothing_is_told_of_one_side() {
    let engine = Engine::builder(ModelSource::demo()).plan().unwrap().load(|_| {}).unwrap();
    let scheduler = Scheduler::new(engine, SchedulerOptions::default()).unwrap();
    assert_eq!(outcome(&submit(&scheduler, 3)).progress.traffic, None);
    assert_eq!(scheduler.status().traffic, None);
}
