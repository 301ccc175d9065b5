//! Guessed tokens change how long a text takes and nothing else.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bloomery_core::constrain::Grammar;
use bloomery_core::sampling::{SamplingParams, Seed};
use bloomery_core::scheduler::{
    Counters, Event, Job, Outcome, Scheduler, SchedulerOptions, Sink, SinkState, Token,
};
use bloomery_core::tokenizer::Specials;
use bloomery_core::{Context, Drafts, Engine, ModelSource, Ngram, Params, Placement, Session, StopReason};

/// Everything that is found is checked, and one token is enough to find something.
const FORCED: Drafts = Drafts::Ngram(Ngram { most: 5, least: 1, longest: 3, shortest: 1, priced: false });

/// Repeats itself, so that guesses are right and wrong.
const TEXT: &str = "The red fox saw the red hen. The red hen saw the red fox. The red fox saw the";

fn engine(sessions: usize, context: usize) -> Engine {
    let builder = Engine::builder(ModelSource::demo()).sessions(sessions).context(Context::Tokens(context));
    builder.plan().unwrap().load(|_| {}).unwrap()
}

fn sampled(seed: u32, drafts: Drafts) -> Params {
    let sampling =
        SamplingParams { seed: Seed::Fixed(seed), repeat_penalty: 1.1, ..SamplingParams::default() };
    Params { sampling, max_tokens: Some(60), ignore_end: true, drafts, ..Params::default() }
}

fn greedy(tokens: usize, drafts: Drafts) -> Params {
    Params { max_tokens: Some(tokens), ignore_end: true, drafts, ..Params::greedy() }
}

fn ids(engine: &Engine, text: &str) -> Vec<u32> {
    engine.tokenizer().encode_prompt(text, Specials::AsText).unwrap()
}

/// Tokens of a generation, and how many were guessed and right.
fn run(session: &mut Session, prompt: &[u32], params: &Params) -> (Vec<u32>, usize, usize) {
    let mut generation = session.generate_tokens(prompt, params).unwrap();
    let tokens = generation.by_ref().filter_map(|piece| piece.unwrap().token).collect();
    (tokens, generation.timings().drafted, generation.timings().accepted)
}

#[test]
fn texts_are_the_same_with_and_without() {
    let engine = engine(1, 512);
    let prompt = ids(&engine, TEXT);
    let mut session = engine.session().unwrap();
    let (mut drafted, mut accepted) = (0, 0);
    for params in (0..12).map(|seed| sampled(seed, FORCED)).chain([greedy(200, FORCED)]) {
        let with = run(&mut session, &prompt, &params);
        let held = session.tokens().to_vec();
        let without = run(&mut session, &prompt, &Params { drafts: Drafts::Off, ..params.clone() });
        assert_eq!(with.0, without.0);
        assert_eq!(held, session.tokens(), "the session holds the same");
        assert_eq!((without.1, without.2), (0, 0));
        let priced = run(&mut session, &prompt, &Params { drafts: Drafts::default(), ..params });
        assert_eq!(priced.0, without.0);
        (drafted, accepted) = (drafted + with.1, accepted + with.2);
    }
    assert!(accepted > 100 && drafted > accepted + 100, "{accepted} of {drafted}");
}

#[test]
fn a_generation_may_be_left_anywhere() {
    let engine = engine(2, 512);
    let prompt = ids(&engine, TEXT);
    let straight = run(&mut engine.session().unwrap(), &prompt, &greedy(60, Drafts::Off)).0;
    let mut session = engine.session().unwrap();
    for taken in 1..40 {
        let mut pieces = session.generate_tokens(&prompt, &greedy(60, FORCED)).unwrap();
        pieces.by_ref().take(taken).for_each(drop);
        let held = [&prompt, &straight[..taken - 1]].concat();
        assert_eq!((session.tokens(), session.len()), (&held[..], held.len()));
        let fork = session.fork().unwrap();
        assert_eq!((fork.tokens(), session.snapshot().unwrap().tokens()), (&held[..], &held[..]));
        drop(fork);
        // What was run ahead leaves nothing behind: the next text is what follows the tokens that were seen.
        let again = greedy(12, Drafts::Off);
        let next: Vec<u32> =
            session.generate(" and", &again).unwrap().filter_map(|piece| piece.unwrap().token).collect();
        let mut all = [&prompt, &straight[..taken]].concat();
        all.extend(engine.tokenizer().encode(" and", Specials::AsText).unwrap());
        assert_eq!(next, run(&mut engine.session().unwrap(), &all, &again).0, "after {taken}");
    }
}

#[test]
fn limits_are_reached_at_the_same_token() {
    let engine = engine(1, 160);
    let prompt = ids(&engine, TEXT);
    let mut session = engine.session().unwrap();
    let mut both = |params: Params| {
        let mut of = |drafts| {
            let params = Params { drafts, ..params.clone() };
            let mut generation = session.generate_tokens(&prompt, &params).unwrap();
            let text: String = generation.by_ref().map(|piece| piece.unwrap().text).collect();
            let result = (text, generation.stop_reason().unwrap(), generation.timings().generated);
            drop(generation);
            (result, session.tokens().to_vec())
        };
        let (with, without) = (of(FORCED), of(Drafts::Off));
        assert_eq!(with, without);
        with.0
    };
    assert_eq!(both(greedy(1000, FORCED)).1, StopReason::ContextFull);
    for most in 0..20 {
        assert_eq!(both(greedy(most, FORCED)).2, most);
    }
    let text = both(greedy(60, FORCED)).0;
    for (at, _) in
        text.char_indices().skip(2).step_by(3).filter(|(at, _)| text.is_char_boundary(at + 4)).take(12)
    {
        let stop = vec![text[at..at + 4].to_owned()];
        assert_eq!(both(Params { stop, ..greedy(60, FORCED) }).1, StopReason::StopText);
    }
    let ends = Params { ignore_end: false, ..greedy(1000, FORCED) };
    both(ends);
}

#[test]
fn constraints_hold_inside_a_run() {
    let engine = engine(1, 512);
    let prompt = ids(&engine, "fox, hen, fox, hen, fox, hen, fox,");
    let grammar = Grammar::gbnf(r#"root ::= (" fox," | " hen,"){3,9} " end""#);
    let mut session = engine.session().unwrap();
    let mut accepted = 0;
    for seed in 0..10 {
        let mut of = |drafts| {
            let generation = session.generate_tokens(&prompt, &sampled(seed, drafts)).unwrap();
            let mut generation = generation.constrained_by(engine.constraint(&grammar).unwrap());
            let text: String = generation.by_ref().map(|piece| piece.unwrap().text).collect();
            let (reason, right) = (generation.stop_reason(), generation.timings().accepted);
            drop(generation);
            ((text, reason, session.tokens().to_vec()), right)
        };
        let (with, without) = (of(FORCED), of(Drafts::Off));
        assert_eq!(with.0, without.0);
        assert!(with.0.0.ends_with(" end"), "{}", with.0.0);
        accepted += with.1;
    }
    assert!(accepted > 10, "{accepted}");
}

/// The distribution of what comes after a fixed beginning, over few words, with seeds that the two sides do not share.
#[test]
fn guesses_do_not_shift_the_distribution() {
    const RUNS: u32 = 2000;
    let engine = engine(1, 128);
    let prompt = ids(&engine, TEXT);
    let mut session = engine.session().unwrap();
    let words = engine.tokenizer().encode(" fox hen saw red", Specials::AsText).unwrap();
    let mut accepted = 0;
    let mut count = |first_seed: u32, drafts: Drafts| {
        let mut counts: HashMap<Vec<u32>, f64> = HashMap::new();
        for seed in first_seed..first_seed + RUNS {
            let mut params = sampled(seed, drafts);
            params.max_tokens = Some(4);
            (params.sampling.repeat_penalty, params.sampling.min_p) = (1.0, 0.0);
            (params.sampling.top_p, params.sampling.temperature) = (1.0, 2.0);
            params.sampling.logit_bias = words.iter().map(|&id| (id, 15.0)).collect();
            let (tokens, _, right) = run(&mut session, &prompt, &params);
            accepted += right;
            *counts.entry(tokens).or_default() += 1.0;
        }
        counts
    };
    let (with, without) = (count(0, FORCED), count(1_000_000, Drafts::Off));
    assert!(accepted > RUNS as usize / 20, "{accepted} guesses were right");
    // Two-sample chi-square; texts that are rare are one class. Its mean is the degrees of freedom, its variance twice that, so
    // five deviations are passed by chance once in a million.
    let (mut square, mut classes, mut rare) = (0.0, 0.0, (0.0, 0.0));
    let keys: std::collections::HashSet<_> = with.keys().chain(without.keys()).collect();
    let mut add = |a: f64, b: f64| (square, classes) = (square + (a - b).powi(2) / (a + b), classes + 1.0);
    for key in keys {
        let (a, b) = (with.get(key).copied().unwrap_or(0.0), without.get(key).copied().unwrap_or(0.0));
        if a + b >= 20.0 { add(a, b) } else { rare = (rare.0 + a, rare.1 + b) }
    }
    add(rare.0, rare.1);
    let freedom: f64 = classes - 1.0;
    assert!(classes > 15.0, "{classes}");
    println!("chi-square {square:.1} of {freedom} degrees, {accepted} guesses were right");
    assert!(square < freedom + 5.0 * (2.0 * freedom).sqrt(), "chi-square {square:.1} of {freedom} degrees");
}

/// A sink that is full after a number of events until it is emptied.
#[derive(Clone)]
struct Probe {
    events: mpsc::Sender<Event>,
    room: Arc<AtomicUsize>,
}

impl Sink for Probe {
    fn state(&self) -> SinkState {
        if self.room.load(Ordering::Relaxed) >= 3 { SinkState::Open } else { SinkState::Full }
    }

    fn send(&mut self, event: Event) {
        let left = self.room.fetch_sub(1, Ordering::Relaxed);
        assert!(left > 0, "an event that nobody asked for");
        let _ = self.events.send(event);
    }
}

struct Running(mpsc::Receiver<Event>, Arc<AtomicUsize>);

fn submit(scheduler: &Scheduler, prompt: &[u32], params: &Params, edit: impl FnOnce(&mut Job)) -> Running {
    let (events, receiver) = mpsc::channel();
    let room = Arc::new(AtomicUsize::new(5));
    let mut job =
        Job::new(prompt.to_vec(), params.clone(), Box::new(Probe { events, room: Arc::clone(&room) }));
    edit(&mut job);
    scheduler.submit(job).unwrap();
    Running(receiver, room)
}

impl Running {
    /// Never lets the job wait.
    fn read_all(&self) {
        self.1.fetch_add(10_000, Ordering::Relaxed);
    }

    fn finish(&self) -> (Vec<Token>, Outcome) {
        let mut tokens = Vec::new();
        loop {
            let event = self.0.recv_timeout(Duration::from_secs(60)).unwrap();
            self.1.fetch_add(1, Ordering::Relaxed);
            match event {
                Event::Token(token) => tokens.push(token),
                Event::Done(outcome) => return (tokens, outcome),
                Event::Failed(error) => panic!("{error}"),
                _ => {}
            }
        }
    }

    fn ids(&self) -> Vec<u32> {
        self.finish().0.iter().map(|token| token.sampled.id).collect()
    }
}

fn scheduler(engine: Engine, slots: usize) -> Scheduler {
    Scheduler::new(engine, SchedulerOptions { slots, queue_depth: 64 }).unwrap()
}

fn rotated(prompt: &[u32], by: usize) -> Vec<u32> {
    let mut prompt = prompt.to_vec();
    prompt[1..].rotate_left(by);
    prompt
}

#[test]
fn jobs_that_share_steps_say_what_they_say_alone() {
    let engine = engine(4, 512);
    let prompt = ids(&engine, TEXT);
    let params = |i: u32, drafts| match i % 3 {
        0 => greedy(80, drafts),
        _ => sampled(i, drafts),
    };
    let mut session = engine.session().unwrap();
    let alone: Vec<Vec<u32>> = (0..12)
        .map(|i| run(&mut session, &rotated(&prompt, i as usize), &params(i, Drafts::Off)).0)
        .collect();
    drop(session);
    let scheduler = scheduler(engine, 4);
    let running: Vec<Running> = (0..12)
        .map(|i| {
            let drafts = [FORCED, Drafts::default(), Drafts::Off][i as usize % 3];
            submit(&scheduler, &rotated(&prompt, i as usize), &params(i, drafts), |_| {})
        })
        .collect();
    // The others stop and go on, as their events are read.
    running.iter().skip(1).step_by(2).for_each(Running::read_all);
    for (i, (running, alone)) in running.iter().zip(&alone).enumerate() {
        let (tokens, outcome) = running.finish();
        let ids: Vec<u32> = tokens.iter().map(|token| token.sampled.id).collect();
        assert_eq!(&ids, alone, "job {i}");
        assert_eq!(outcome.held, rotated(&prompt, i).len() + ids.len());
        let progress = outcome.progress;
        assert!(progress.accepted <= progress.drafted && (i % 3 < 2 || progress.drafted == 0));
    }
    let Counters { drafts, drafted_tokens, accepted_tokens, accepted_at, .. } = scheduler.status().counters;
    assert!(accepted_tokens > 50 && drafted_tokens > accepted_tokens && drafts > 0);
    assert_eq!(accepted_at.iter().sum::<u64>(), accepted_tokens);
    assert!(accepted_at.is_sorted_by(|a, b| a >= b), "{accepted_at:?}");
}

#[test]
fn every_token_of_a_run_has_its_probabilities() {
    let engine = engine(1, 512);
    let prompt = ids(&engine, TEXT);
    let scheduler = scheduler(engine, 1);
    let of = |drafts| {
        let mut params = greedy(60, drafts);
        params.sampling.n_probs = 3;
        let (tokens, outcome) = submit(&scheduler, &prompt, &params, |_| {}).finish();
        let texts: String = tokens.iter().map(|token| token.text.as_str()).collect();
        (tokens.into_iter().map(|token| token.sampled).collect::<Vec<_>>(), texts, outcome)
    };
    let (with, without) = (of(FORCED), of(Drafts::Off));
    assert_eq!((&with.0, &with.1), (&without.0, &without.1));
    assert!(with.0.iter().all(|sampled| sampled.top.len() == 3));
    assert!(with.2.progress.accepted > 5);
}

#[test]
fn the_context_ends_where_it_ends() {
    let engine = engine(2, 128);
    let prompt = ids(&engine, TEXT);
    let scheduler = scheduler(engine, 2);
    let of = |drafts, stop: &[&str]| {
        let stop = stop.iter().map(|&stop| stop.to_owned()).collect();
        let params = Params { stop, ..greedy(1000, drafts) };
        let (tokens, outcome) = submit(&scheduler, &prompt, &params, |_| {}).finish();
        (tokens.len(), outcome.reason, outcome.held, outcome.text)
    };
    assert_eq!(of(FORCED, &[]), of(Drafts::Off, &[]));
    assert_eq!(of(FORCED, &[]).1, StopReason::ContextFull);
    for stop in [" fox saw", "hen.", " The", "x s"] {
        assert_eq!(of(FORCED, &[stop]), of(Drafts::Off, &[stop]));
    }
}

#[test]
fn a_job_gives_way_before_its_guesses_do_not() {
    // Room for the texts of one job and a half: jobs are preempted, and guesses alone never make that happen.
    let load = |pool| {
        let builder =
            Engine::builder(ModelSource::demo()).sessions(3).context(Context::Tokens(512)).pool(pool);
        builder.plan().unwrap().load(|_| {}).unwrap()
    };
    let expected: Vec<Vec<u32>> = {
        let engine = load(512);
        let prompt = ids(&engine, TEXT);
        let mut session = engine.session().unwrap();
        (0..3).map(|i| run(&mut session, &rotated(&prompt, i), &greedy(300, Drafts::Off)).0).collect()
    };
    let engine = load(512);
    let prompt = ids(&engine, TEXT);
    let scheduler = scheduler(engine, 3);
    let running: Vec<Running> =
        (0..3).map(|i| submit(&scheduler, &rotated(&prompt, i), &greedy(300, FORCED), |_| {})).collect();
    running.iter().for_each(Running::read_all);
    for (running, expected) in running.iter().zip(&expected) {
        assert_eq!(&running.ids(), expected);
    }
    assert!(scheduler.status().counters.preempted > 0);
    assert!(scheduler.status().counters.accepted_tokens > 0);
}

#[test]
fn a_constrained_job_ends_inside_a_run() {
    let engine = engine(1, 512);
    let prompt = ids(&engine, "fox, hen, fox, hen, fox, hen, fox,");
    let grammar = Grammar::gbnf(r#"root ::= (" fox," | " hen,"){3,5}"#);
    let scheduler = scheduler(engine, 1);
    let of = |seed, drafts| {
        let constraint = scheduler.engine().constraint(&grammar).unwrap();
        let running =
            submit(&scheduler, &prompt, &sampled(seed, drafts), |job| job.constraint = Some(constraint));
        let (tokens, outcome) = running.finish();
        let ids: Vec<u32> = tokens.iter().map(|token| token.sampled.id).collect();
        (ids, outcome.reason, outcome.held)
    };
    for seed in 0..10 {
        let with = of(seed, FORCED);
        assert_eq!(with, of(seed, Drafts::Off));
        assert_eq!(with.1, StopReason::End);
    }
}

/// Prints tokens per second with and without guesses, medians of alternating rounds. `MODEL` may name another file.
#[test]
#[ignore = "a measurement"]
fn what_guesses_gain() {
    const ROUNDS: u32 = 9;
    let source = std::env::var_os("MODEL")
        .map_or_else(ModelSource::demo, |path| ModelSource::from(std::path::PathBuf::from(path)));
    let builder = Engine::builder(source).sessions(4).context(Context::Tokens(1024));
    let engine = builder.placement(Placement::Cpu).plan().unwrap().load(|_| {}).unwrap();
    let code = "fn area(w: f32, h: f32) -> f32 {\n    let product = w * h;\n    assert!(product >= 0.0);\n    product\n}\n\
                fn volume(w: f32, h: f32, d: f32) -> f32 {\n    let product = w * h * d;\n    assert!(product >= 0.0);\n    product\n}\n";
    let quoting = format!("The file:\n{code}\nThe same file once more, with f64 in place of f32:\n");
    let plain = "Once upon a time there was a fox who lived at the edge of a small town and";
    let greedy = Params { max_tokens: Some(120), ignore_end: true, ..Params::greedy() };
    let drawn = |seed| Params { drafts: Drafts::default(), ..sampled(seed, FORCED) };
    let mut session = engine.session().unwrap();
    for (name, text, draws) in [
        ("quoting", quoting.as_str(), false),
        ("story, greedy", plain, false),
        ("story, sampled", plain, true),
    ] {
        let prompt = ids(&engine, text);
        let (mut rates, mut counts) = ([Vec::new(), Vec::new()], (0, 0, 0));
        for round in 0..ROUNDS {
            let params =
                if draws { Params { max_tokens: Some(120), ..drawn(round) } } else { greedy.clone() };
            // Each is first every other time.
            for with in [round % 2, 1 - round % 2] {
                let drafts = if with == 1 { Drafts::default() } else { Drafts::Off };
                let mut generation =
                    session.generate_tokens(&prompt, &Params { drafts, ..params.clone() }).unwrap();
                generation.by_ref().for_each(drop);
                let timings = generation.timings();
                rates[with as usize].push(timings.generate_rate());
                counts =
                    (counts.0 + timings.drafted, counts.1 + timings.accepted, counts.2 + timings.generated);
            }
        }
        let [off, on] = rates.map(|mut rates| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2]
        });
        let (drafted, accepted, generated) = counts;
        println!(
            "{name}: {off:.1} tok/s without, {on:.1} with, {:.2} times; {accepted} of {drafted} right, {} tokens",
            on / off,
            generated / 2
        );
    }
}
