//! Recurrent states of a real hybrid: whatever is cut, shared, saved or guessed, results are those of a fresh run, to the bit.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "this binary uses a part of it")]
mod common;

use std::sync::mpsc::{self, Receiver};

use bloomery_core::scheduler::{Event, Job, Outcome, Scheduler, SchedulerOptions, Sink, SinkState};
use bloomery_core::{
    Bytes, Context, Drafts, Engine, EngineBuilder, Logits, Ngram, Params, Placement, Session, Snapshot, Turn,
};

/// Everything that is found is checked.
const FORCED: Drafts = Drafts::Ngram(Ngram { most: 6, least: 1, longest: 3, shortest: 1, priced: false });

/// Models with recurrent states: beside those of delta layers, one has a window of n-grams, and two have indexes in their pages.
const ALL: [&str; 3] = ["qwen35moe-small-bf16", "qwen4exp-small-bf16", "glm5next-small-bf16"];

/// Those, and models whose groups of positions are open in the middle of a page, and across pages.
fn all_and_grouped() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().chain(["deepseek4-small-bf16", "deepseek41-small-bf16"])
}

fn builder(sessions: usize, context: usize) -> EngineBuilder {
    builder_of(ALL[0], sessions, context)
}

fn builder_of(model: &str, sessions: usize, context: usize) -> EngineBuilder {
    Engine::builder(common::model_path(model).as_path())
        .context(Context::Tokens(context))
        .placement(Placement::Cpu)
        .sessions(sessions)
}

fn load(builder: EngineBuilder) -> Engine {
    builder.plan().unwrap().load(|_| {}).unwrap()
}

fn ids(seed: u64, len: usize) -> Vec<u32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % 1000
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// Logits after `tokens`, run from nothing.
fn fresh(plain: &Engine, tokens: &[u32]) -> Vec<u32> {
    bits(plain.session().unwrap().prefill(tokens).unwrap())
}

fn step(session: &mut Session, token: u32) -> Vec<u32> {
    bits(session.step(token).unwrap())
}

#[test]
fn a_cut_at_every_length_gives_what_a_fresh_run_gives() {
    all_and_grouped().for_each(cut_at_every_length);
}

fn cut_at_every_length(model: &str) {
    let (plain, engine) = (load(builder_of(model, 1, 512)), load(builder_of(model, 3, 512)));
    let text = ids(1, 150);
    let mut session = engine.session().unwrap();
    // Three is no divisor of a block of positions, of a window or of a page: all places inside those come up.
    for len in (0..text.len()).step_by(if model == ALL[0] { 1 } else { 3 }) {
        let expected = fresh(&plain, &[&text[..len], &[7]].concat());
        session.truncate(0).unwrap();
        session.prefill(&text).unwrap();
        session.truncate(len).unwrap();
        let mut fork = session.fork().unwrap();
        let snapshot = Snapshot::from_bytes(&session.snapshot().unwrap().to_bytes()).unwrap();
        assert_eq!(step(&mut session, 7), expected, "{model} cut at {len}");
        assert_eq!(step(&mut fork, 7), expected, "{model} forked at {len}");
        fork.restore(&snapshot).unwrap();
        assert_eq!(fork.tokens(), &text[..len]);
        assert_eq!(step(&mut fork, 7), expected, "{model} restored at {len}");
    }
}

#[test]
fn an_edit_anywhere_gives_what_a_fresh_run_gives() {
    all_and_grouped().for_each(edit_anywhere);
}

fn edit_anywhere(model: &str) {
    let (plain, engine) = (load(builder_of(model, 1, 1024)), load(builder_of(model, 3, 1024)));
    let original = ids(2, 700);
    let mut writer = engine.session().unwrap();
    writer.prefill(&original).unwrap();
    writer.publish();
    for position in [0, 1, 63, 64, 65, 200, 448, 449, 500, 575, 576, 640, 641, 698, 699] {
        let mut edited = original.clone();
        edited[position] ^= 1;
        let mut reader = engine.session().unwrap();
        let known = reader.adopt(&edited).unwrap();
        assert!(known <= position && known + 256.max(700 - position) >= position, "{known} of {position}");
        let logits = bits(reader.prefill(&edited[known..]).unwrap());
        assert_eq!(logits, fresh(&plain, &edited), "{model}: an edit at {position}");
    }
    assert_eq!(step(&mut writer, 9), fresh(&plain, &[&original[..], &[9]].concat()));
}

#[test]
fn sequences_in_one_step_do_not_meet() {
    all_and_grouped().for_each(sequences_in_one_step);
}

fn sequences_in_one_step(model: &str) {
    let (plain, engine) = (load(builder_of(model, 1, 512)), load(builder_of(model, 4, 512)));
    let texts: Vec<Vec<u32>> = (0..4).map(|seed| ids(seed + 10, 120)).collect();
    let mut sessions: Vec<Session> = texts.iter().map(|_| engine.session().unwrap()).collect();
    // Parts of all lengths, so that every step has rows of some at other places than of others.
    let mut done = [0usize; 4];
    for round in 0.. {
        let ends: Vec<usize> =
            (0..4).map(|who| 120.min(done[who] + 1 + (round * 7 + who * 13) % 23)).collect();
        let mut turns: Vec<Turn<'_>> = sessions
            .iter_mut()
            .enumerate()
            .filter(|&(who, _)| done[who] < 120)
            .map(|(who, session)| Turn::new(session, &texts[who][done[who]..ends[who]], Logits::Last))
            .collect();
        if turns.is_empty() {
            break;
        }
        engine.step(&mut turns).unwrap();
        let logits: Vec<Vec<u32>> = turns.iter().map(|turn| bits(turn.logits())).collect();
        drop(turns);
        let running = (0..4).filter(|&who| done[who] < 120).collect::<Vec<_>>();
        for (who, logits) in running.into_iter().zip(logits) {
            done[who] = ends[who];
            assert_eq!(logits, fresh(&plain, &texts[who][..done[who]]), "{model}: {who} at {}", done[who]);
        }
    }
}

/// More positions than the published models' indexes let a row see: parts of any size give what one prompt gives, and what single
/// tokens do.
#[test]
fn long_prompts_may_be_cut_where_positions_are_chosen() {
    for model in all_and_grouped().skip(1) {
        let engine = load(builder_of(model, 1, 4096).step_rows(512));
        let text = ids(5, 2_300);
        let whole = fresh(&engine, &text);
        let mut session = engine.session().unwrap();
        for part in text[..2_200].chunks(333) {
            session.prefill(part).unwrap();
        }
        let mut last = Vec::new();
        text[2_200..].iter().for_each(|&token| last = step(&mut session, token));
        assert!(last == whole, "{model}");
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

fn greedy(tokens: usize, drafts: Drafts) -> Params {
    Params { max_tokens: Some(tokens), ignore_end: true, drafts, ..Params::greedy() }
}

fn scheduler(engine: &Engine) -> Scheduler {
    let slots = engine.max_sessions();
    Scheduler::new(engine.clone(), SchedulerOptions { slots, ..SchedulerOptions::default() }).unwrap()
}

fn submit(scheduler: &Scheduler, prompt: &[u32], params: Params) -> Receiver<Event> {
    let (sender, events) = mpsc::channel();
    scheduler.submit(Job::new(prompt.to_vec(), params, Box::new(Channel(sender)))).unwrap();
    events
}

fn finish(events: &Receiver<Event>) -> (Vec<u32>, Outcome) {
    let mut tokens = Vec::new();
    loop {
        match events.recv().unwrap() {
            Event::Token(token) => tokens.push(token.sampled.id),
            Event::Done(outcome) => return (tokens, outcome),
            Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

/// The greedy text, a token at a time.
fn text(plain: &Engine, prompt: &[u32], count: usize) -> Vec<u32> {
    let mut session = plain.session().unwrap();
    let mut tokens = Vec::new();
    for piece in session.generate_tokens(prompt, &greedy(count, Drafts::Off)).unwrap() {
        tokens.extend(piece.unwrap().token);
    }
    tokens
}

/// Repeats itself, so that there is something to guess.
fn circles(seed: u64) -> Vec<u32> {
    ids(seed, 30).repeat(4)
}

#[test]
fn guesses_change_no_text() {
    let plain = load(builder(1, 512));
    for checkpoints in [None, Some(0)] {
        let options =
            |builder: EngineBuilder| checkpoints.into_iter().fold(builder, EngineBuilder::checkpoints);
        let engine = load(options(builder(3, 512)));
        let scheduler = scheduler(&engine);
        let prompts: Vec<Vec<u32>> = (0..5).map(|seed| circles(seed + 30)).collect();
        let jobs: Vec<_> =
            prompts.iter().map(|prompt| submit(&scheduler, prompt, greedy(100, FORCED))).collect();
        let mut drafted = 0;
        for (prompt, job) in prompts.iter().zip(&jobs) {
            let (tokens, outcome) = finish(job);
            assert_eq!(tokens, text(&plain, prompt, 100));
            assert!(outcome.progress.accepted <= outcome.progress.drafted);
            drafted += outcome.progress.drafted;
        }
        assert!(drafted > 50, "{drafted}");
    }
    let engine = load(builder(1, 512));
    let mut session = engine.session().unwrap();
    let prompt = circles(30);
    let mut generation = session.generate_tokens(&prompt, &greedy(100, FORCED)).unwrap();
    let tokens: Vec<u32> = generation.by_ref().filter_map(|piece| piece.unwrap().token).collect();
    assert_eq!(tokens, text(&plain, &prompt, 100));
    let timings = generation.timings();
    println!("{} of {} guesses were right", timings.accepted, timings.drafted);
    assert!(timings.drafted > 10 && timings.accepted <= timings.drafted);
}

#[test]
fn an_edit_near_the_end_of_a_long_conversation_is_cheap() {
    let (plain, engine) = (load(builder(1, 4200)), load(builder(2, 4200).cache_ram(Bytes(64 << 20))));
    let scheduler = scheduler(&engine);
    let conversation = ids(50, 4000);
    let (answer, _) = finish(&submit(&scheduler, &conversation, greedy(8, Drafts::default())));
    assert_eq!(answer, text(&plain, &conversation, 8));
    let mut edited = conversation.clone();
    edited[3900] ^= 1;
    let (tokens, outcome) = finish(&submit(&scheduler, &edited, greedy(8, Drafts::default())));
    assert!(outcome.progress.prompt < 400, "{:?}", outcome.progress);
    assert_eq!(tokens, text(&plain, &edited, 8));
    // And to the bit.
    drop(scheduler);
    let mut session = engine.session().unwrap();
    edited[3950] ^= 1;
    let known = session.adopt(&edited).unwrap();
    assert!(known > 3600, "{known}");
    assert_eq!(bits(session.prefill(&edited[known..]).unwrap()), fresh(&plain, &edited));
}

#[test]
fn jobs_that_give_way_write_what_they_would_have_written() {
    let plain = load(builder(1, 512));
    let engine = load(builder(3, 512).pool(1000).checkpoints(1).cache_ram(Bytes(1 << 20)));
    let scheduler = scheduler(&engine);
    let prompts: Vec<Vec<u32>> = (0..5).map(|seed| ids(seed + 70, 250)).collect();
    let jobs: Vec<_> = prompts.iter().map(|prompt| submit(&scheduler, prompt, greedy(200, FORCED))).collect();
    for (prompt, job) in prompts.iter().zip(&jobs) {
        assert_eq!(finish(job).0, text(&plain, prompt, 200));
    }
    assert!(scheduler.status().counters.preempted > 0);
}

#[test]
fn plans_have_a_term_for_states() {
    let plan = builder(2, 512).checkpoints(3).plan().unwrap();
    let states = plan.terms().iter().find(|term| term.what == "recurrent states").unwrap();
    // One and five for each session, three to come back to.
    assert!(states.detail.starts_with("18 states of "), "{states}");
    let plain = Engine::builder(common::model_path("qwen3-small-bf16").as_path()).plan().unwrap();
    assert!(plain.terms().iter().all(|term| term.what != "recurrent states"));
}
