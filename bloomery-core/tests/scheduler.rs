//! Many jobs on one engine: what each of them says, and who has to wait for whom.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bloomery_core::sampling::{SamplingParams, Seed};
use bloomery_core::scheduler::{Event, Job, Outcome, Scheduler, SchedulerOptions, Sink, SinkState};
use bloomery_core::{Context, Engine, EngineError, ModelSource, Params, StopReason};

/// A sink whose state the test decides.
#[derive(Clone)]
struct Probe {
    events: mpsc::Sender<(Instant, Event)>,
    state: Arc<AtomicU8>,
}

const OPEN: u8 = 0;
const FULL: u8 = 1;
const CLOSED: u8 = 2;

impl Sink for Probe {
    fn state(&self) -> SinkState {
        match self.state.load(Ordering::Relaxed) {
            OPEN => SinkState::Open,
            FULL => SinkState::Full,
            _ => SinkState::Closed,
        }
    }

    fn send(&mut self, event: Event) {
        let _ = self.events.send((Instant::now(), event));
    }
}

/// A submitted job.
struct Running {
    events: mpsc::Receiver<(Instant, Event)>,
    state: Arc<AtomicU8>,
}

impl Running {
    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Relaxed);
    }

    fn next(&self) -> Event {
        self.events.recv_timeout(Duration::from_secs(60)).unwrap().1
    }

    /// Waits for the first token.
    fn started(&self) {
        while !matches!(self.next(), Event::Token(_)) {}
    }

    /// All tokens, how it ended, and when.
    fn finish(&self) -> (Vec<u32>, Outcome, Instant) {
        let mut tokens = Vec::new();
        loop {
            match self.events.recv_timeout(Duration::from_secs(60)).unwrap() {
                (_, Event::Token(token)) => tokens.push(token.sampled.id),
                (at, Event::Done(outcome)) => return (tokens, outcome, at),
                (_, Event::Failed(error)) => panic!("{error}"),
                _ => {}
            }
        }
    }
}

fn engine(sessions: usize, context: usize) -> Engine {
    let builder = Engine::builder(ModelSource::demo()).sessions(sessions).context(Context::Tokens(context));
    builder.plan().unwrap().load(|_| {}).unwrap()
}

fn scheduler(engine: Engine, slots: usize) -> Scheduler {
    Scheduler::new(engine, SchedulerOptions { slots, queue_depth: 16 }).unwrap()
}

fn submit(scheduler: &Scheduler, prompt: &[u32], params: &Params, edit: impl FnOnce(&mut Job)) -> Running {
    let (sender, events) = mpsc::channel();
    let state = Arc::new(AtomicU8::new(OPEN));
    let probe = Probe { events: sender, state: Arc::clone(&state) };
    let mut job = Job::new(prompt.to_vec(), params.clone(), Box::new(probe));
    edit(&mut job);
    scheduler.submit(job).unwrap();
    Running { events, state }
}

fn greedy(tokens: usize) -> Params {
    Params { max_tokens: Some(tokens), ignore_end: true, ..Params::greedy() }
}

/// Prompts that have nothing in common.
fn prompt(salt: u32, len: usize) -> Vec<u32> {
    let next = |x: u32| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    let mut x = salt.wrapping_mul(2_654_435_761);
    (0..len)
        .map(|_| {
            x = next(x);
            300 + (x >> 16) % 3000
        })
        .collect()
}

/// Waits until the status says so.
fn eventually(scheduler: &Scheduler, what: &str, holds: impl Fn(&Scheduler) -> bool) {
    let start = Instant::now();
    while !holds(scheduler) {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}: {:?}", scheduler.status());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn company_does_not_change_an_answer() {
    let engine = engine(4, 512);
    let params = |seed| Params {
        sampling: SamplingParams {
            seed: Seed::Fixed(seed),
            repeat_penalty: 1.1,
            ..SamplingParams::default()
        },
        max_tokens: Some(40),
        ..Params::default()
    };
    let prompts: Vec<Vec<u32>> = (0..9).map(|i| prompt(i, 1 + 37 * i as usize)).collect();
    let alone: Vec<Vec<u32>> = prompts
        .iter()
        .zip(0..)
        .map(|(prompt, seed)| {
            let mut session = engine.session().unwrap();
            let pieces = session.generate_tokens(prompt, &params(seed)).unwrap();
            pieces.filter_map(|piece| piece.unwrap().token).collect()
        })
        .collect();
    let scheduler = scheduler(engine, 3);
    let running: Vec<Running> = prompts
        .iter()
        .zip(0..)
        .map(|(prompt, seed)| submit(&scheduler, prompt, &params(seed), |_| {}))
        .collect();
    for (running, alone) in running.iter().zip(&alone) {
        let (mut tokens, outcome, _) = running.finish();
        if outcome.reason == StopReason::End {
            tokens.pop();
        }
        assert_eq!(&tokens, alone);
    }
}

#[test]
fn a_job_whose_reader_is_gone_frees_its_slot() {
    let scheduler = scheduler(engine(2, 4096), 1);
    let generating = submit(&scheduler, &prompt(1, 8), &greedy(4000), |_| {});
    generating.started();
    let waiting = submit(&scheduler, &prompt(2, 8), &greedy(4), |_| {});
    let abandoned = submit(&scheduler, &prompt(3, 8), &greedy(4), |_| {});
    abandoned.set(CLOSED);
    eventually(&scheduler, "a waiting job is taken out", |s| s.status().counters.cancelled == 1);
    assert_eq!(scheduler.status().busy(), 1, "the running one is not touched");
    generating.set(CLOSED);
    assert_eq!(waiting.finish().0.len(), 4);
    let prefilling = submit(&scheduler, &prompt(4, 4000), &greedy(4), |_| {});
    while !matches!(prefilling.next(), Event::Prompt(_)) {}
    prefilling.set(CLOSED);
    eventually(&scheduler, "the slot is free", |s| s.status().busy() == 0);
    let events: Vec<Event> = prefilling.events.try_iter().map(|(_, event)| event).collect();
    assert!(!events.iter().any(|event| matches!(event, Event::Token(_))), "it ended inside the prompt");
    assert!(scheduler.status().counters.prompt_tokens < 4000);
}

#[test]
fn a_slow_reader_stops_its_own_job_only() {
    let scheduler = scheduler(engine(2, 1024), 2);
    let slow = submit(&scheduler, &prompt(1, 8), &greedy(600), |_| {});
    slow.started();
    slow.set(FULL);
    let quick = submit(&scheduler, &prompt(2, 8), &greedy(50), |_| {});
    assert_eq!(quick.finish().0.len(), 50);
    let seen = 1 + slow.events.try_iter().filter(|(_, event)| matches!(event, Event::Token(_))).count();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(slow.events.try_iter().count(), 0, "no step is run for it");
    slow.set(OPEN);
    assert_eq!(seen + slow.finish().0.len(), 600);
}

#[test]
fn the_queue_is_bounded_and_refusals_have_numbers() {
    let scheduler = Scheduler::new(engine(1, 256), SchedulerOptions { slots: 1, queue_depth: 1 }).unwrap();
    let first = submit(&scheduler, &prompt(1, 4), &greedy(200), |_| {});
    let second = submit(&scheduler, &prompt(2, 4), &greedy(2), |_| {});
    let refuse = |prompt: Vec<u32>, slot: Option<usize>| {
        let (sender, _events) = mpsc::channel();
        let probe = Probe { events: sender, state: Arc::new(AtomicU8::new(OPEN)) };
        scheduler.submit(Job { slot, ..Job::new(prompt, greedy(1), Box::new(probe)) }).unwrap_err()
    };
    assert!(matches!(refuse(prompt(3, 4), None), EngineError::QueueFull { running: 1, waiting: 1 }));
    first.set(CLOSED);
    second.finish();
    eventually(&scheduler, "places are given back", |s| s.status().busy() == 0);
    assert!(matches!(
        refuse(prompt(3, 256), None),
        EngineError::ContextFull { adding: 257, context: 256, .. }
    ));
    assert!(matches!(refuse(vec![], None), EngineError::NoTokens { .. }));
    assert!(matches!(refuse(vec![9_999_999], None), EngineError::UnknownToken { id: 9_999_999, .. }));
    assert!(matches!(refuse(vec![5], Some(1)), EngineError::NoSuchSlot { slot: 1, slots: 1 }));
    let last = submit(&scheduler, &prompt(4, 255), &greedy(9), |_| {});
    let (tokens, outcome, _) = last.finish();
    assert_eq!((tokens.len(), outcome.reason), (1, StopReason::ContextFull));
}

#[test]
fn an_end_makes_room_before_it_is_told() {
    let scheduler = Scheduler::new(engine(1, 256), SchedulerOptions { slots: 1, queue_depth: 0 }).unwrap();
    for _ in 0..300 {
        submit(&scheduler, &[5], &greedy(1), |_| {}).finish();
    }
}

#[test]
fn a_short_prompt_does_not_wait_for_a_long_one() {
    let scheduler = scheduler(engine(2, 4096), 2);
    let long = submit(&scheduler, &prompt(1, 4000), &greedy(1), |_| {});
    let short = submit(&scheduler, &prompt(2, 100), &greedy(1), |_| {});
    assert!(short.finish().2 < long.finish().2);
}

#[test]
fn a_job_waits_for_the_slot_it_wants() {
    let scheduler = scheduler(engine(2, 512), 2);
    let first = submit(&scheduler, &prompt(1, 8), &greedy(100), |job| job.slot = Some(1));
    let second = submit(&scheduler, &prompt(2, 8), &greedy(1), |job| job.slot = Some(1));
    let free = submit(&scheduler, &prompt(3, 8), &greedy(1), |_| {});
    let slot_of = |running: &Running| match running.next() {
        Event::Started { slot, .. } => slot,
        other => panic!("{other:?}"),
    };
    assert_eq!((slot_of(&first), slot_of(&free)), (1, 0));
    assert!(free.finish().2 < second.finish().2, "others pass a job that waits for its slot");
}

#[test]
fn a_stop_text_and_a_budget_of_nothing() {
    let scheduler = scheduler(engine(1, 256), 1);
    let engine = scheduler.engine().clone();
    let ids =
        engine.tokenizer().encode("Once upon a time", bloomery_core::tokenizer::Specials::AsText).unwrap();
    let nothing = submit(&scheduler, &ids, &greedy(0), |_| {}).finish();
    assert_eq!(
        (nothing.0.len(), nothing.1.reason, nothing.1.progress.prompt),
        (0, StopReason::MaxTokens, ids.len())
    );
    let params = Params { stop: vec!["\u{0}".to_owned(), " a".to_owned()], ..greedy(100) };
    let stopped = submit(&scheduler, &ids, &params, |_| {}).finish();
    assert_eq!((stopped.1.reason, stopped.1.stop), (StopReason::StopText, Some(1)));
}

/// Tokens per second of four streams, alone and while a prompt of 4000 tokens is computed beside them.
#[test]
fn a_long_prompt_leaves_streams_half_of_their_speed() {
    // Other processes can only make the second half slower or the first one faster by chance; three tries see to that.
    let best = (0..3).map(|_| share_of_speed()).fold(0.0, f64::max);
    assert!(best >= 0.45, "streams keep {best:.2} of their speed");
}

fn share_of_speed() -> f64 {
    let scheduler = scheduler(engine(5, 4600), 5);
    let streams: Vec<Running> =
        (0..4).map(|i| submit(&scheduler, &prompt(i, 16), &greedy(4500), |_| {})).collect();
    streams.iter().for_each(Running::started);
    std::thread::sleep(Duration::from_millis(150));
    let start = Instant::now();
    let long = submit(&scheduler, &prompt(77, 4000), &greedy(1), |_| {});
    let (_, _, end) = long.finish();
    std::thread::sleep(Duration::from_millis(150));
    let times: Vec<Instant> = streams[0].events.try_iter().map(|(at, _)| at).collect();
    streams.iter().for_each(|stream| stream.set(CLOSED));
    let rate = |from: Instant, to: Instant| {
        times.iter().filter(|&&at| from <= at && at < to).count() as f64 / (to - from).as_secs_f64()
    };
    let (first, last) = (*times.first().unwrap(), *times.last().unwrap());
    rate(start, end) / rate(first, start).min(rate(end, last))
}

fn cached(running: &Running) -> usize {
    running.finish().1.progress.cached
}

#[test]
fn what_was_computed_is_not_computed_again() {
    let scheduler = scheduler(engine(2, 1024), 2);
    let system = prompt(1, 200);
    let ask = |tail: u32, reuse: bool| {
        let mut tokens = system.clone();
        tokens.extend(prompt(tail, 30));
        submit(&scheduler, &tokens, &greedy(4), |job| job.reuse = reuse)
    };
    assert_eq!(cached(&ask(2, true)), 0);
    assert_eq!(cached(&ask(2, true)), 229, "all but the last token, whose logits are needed");
    assert_eq!(cached(&ask(3, true)), 200, "also inside a page");
    assert_eq!(cached(&ask(3, false)), 0);
    let counters = scheduler.status().counters;
    assert_eq!((counters.prompt_tokens, counters.cached_tokens), (230 + 1 + 30 + 230, 429));
}

#[test]
fn prompts_that_arrive_together_share_their_beginning() {
    let scheduler = scheduler(engine(4, 2048), 4);
    let system = prompt(1, 1500);
    let ask = |tail: u32| {
        let mut tokens = system.clone();
        tokens.extend(prompt(tail, 20));
        submit(&scheduler, &tokens, &greedy(2), |_| {})
    };
    let running: Vec<Running> = (0..4).map(|tail| ask(100 + tail)).collect();
    let cached: Vec<usize> = running.iter().map(cached).collect();
    assert_eq!(cached, [0, 1500, 1500, 1500]);
}

#[test]
fn jobs_that_do_not_fit_together_run_one_after_the_other() {
    let builder = Engine::builder(ModelSource::demo()).sessions(3).context(Context::Tokens(512)).pool(512);
    let engine = builder.plan().unwrap().load(|_| {}).unwrap();
    let expected: Vec<Vec<u32>> = (0..3)
        .map(|i| {
            let mut session = engine.session().unwrap();
            let generation = session.generate_tokens(&prompt(i, 100), &greedy(300)).unwrap();
            generation.map(|piece| piece.unwrap().token.unwrap()).collect()
        })
        .collect();
    engine.clear_prefixes();
    let scheduler = scheduler(engine, 3);
    let running: Vec<Running> =
        (0..3).map(|i| submit(&scheduler, &prompt(i, 100), &greedy(300), |_| {})).collect();
    for (running, expected) in running.iter().zip(&expected) {
        let (tokens, outcome, _) = running.finish();
        assert_eq!(&tokens, expected);
        assert_eq!((outcome.progress.prompt, outcome.progress.cached), (100, 0));
    }
    assert!(scheduler.status().counters.preempted > 0);
}

#[test]
fn a_slot_is_saved_restored_and_erased() {
    let scheduler = scheduler(engine(2, 512), 2);
    let on =
        |slot: usize, tokens: &[u32]| submit(&scheduler, tokens, &greedy(3), |job| job.slot = Some(slot));
    let (sender, answers) = mpsc::channel();
    let tokens = prompt(1, 100);
    on(1, &tokens).finish();
    let answer = sender.clone();
    scheduler.save(1, move |snapshot| answer.send(snapshot.map(Some)).unwrap());
    let snapshot = answers.recv().unwrap().unwrap().unwrap();
    assert_eq!(snapshot.tokens().len(), 102, "the last token was not run");
    let (sender, numbers) = mpsc::channel();
    let answer = sender.clone();
    scheduler.erase(1, move |erased| answer.send(erased).unwrap());
    assert_eq!(numbers.recv().unwrap().unwrap(), 102);
    assert_eq!(cached(&on(1, &tokens)), 0);
    scheduler.engine().clear_prefixes();
    let answer = sender.clone();
    scheduler.restore(0, snapshot, move |restored| answer.send(restored).unwrap());
    assert_eq!(numbers.recv().unwrap().unwrap(), 102);
    assert_eq!(cached(&on(0, &tokens)), 99);
    scheduler.erase(7, move |erased| sender.send(erased).unwrap());
    assert!(matches!(numbers.recv().unwrap(), Err(EngineError::NoSuchSlot { slot: 7, slots: 2 })));
}
