//! A model's own block for the next tokens: it changes neither logits nor texts.

#[path = "../common/block.rs"]
mod joined;

use std::sync::mpsc;

use bloomery_core::sampling::Seed;
use bloomery_core::scheduler::{Event, Job, Pooling, Scheduler, SchedulerOptions, Sink, SinkState};
use bloomery_core::{
    Block, Context, Drafts, Engine, EngineBuilder, HostExperts, Logits, Params, Placement, ResidencyMode,
    Turn,
};

use super::common::{self, Fixture, all_logits};
use super::{Card, bits, card};
use joined::{Joined, SPARK, expected, ids, spark};

/// Architectures whose fixtures there are blocks for.
const ALL: [&str; 5] = ["qwen35moe", "qwen4exp", "glm5next", "deepseek4", SPARK];

/// The fixture with the same trunk, and its texts.
fn trunk(arch: &str) -> &'static str {
    common::ON_CARD.into_iter().find(|name| *name == format!("{arch}-small-bf16")).unwrap()
}

const BLOCK: Drafts = Drafts::Block(Block { most: 3, priced: false });

fn engine(card: &Card, arch: &str, sessions: usize) -> Engine {
    load(card, arch, |builder| builder.sessions(sessions))
}

fn load(card: &Card, arch: &str, with: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Engine {
    let (file, builder);
    if arch == SPARK {
        let [layers, model] = spark();
        builder = Engine::builder(model).block(layers);
    } else {
        file = Joined::write(arch);
        builder = Engine::builder(file.path());
    }
    let builder = builder.context(Context::Tokens(512)).placement(Placement::card(0));
    with(builder.cards(card.cards.clone())).plan().unwrap().load(|_| {}).unwrap()
}

fn greedy(drafts: Drafts) -> Params {
    Params { max_tokens: Some(48), ignore_end: true, drafts, ..Params::greedy() }
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

fn submit(scheduler: &Scheduler, job: impl FnOnce(Box<dyn Sink>) -> Job) -> mpsc::Receiver<Event> {
    let (sender, events) = mpsc::channel();
    scheduler.submit(job(Box::new(Channel(sender)))).unwrap();
    events
}

#[test]
fn logits_routes_and_states_are_those_without_a_block() {
    let Some(card) = card() else { return };
    ALL.into_iter().for_each(|arch| alike_without(&card, arch));
}

fn alike_without(card: &Card, arch: &str) {
    let fixture = Fixture::read(trunk(arch));
    let (with, without) = (engine(card, arch, 1), card.engine(&fixture, 1));
    for chunk in [usize::MAX, 20, 1] {
        let [with, without] = [&with, &without].map(|engine| bits(&all_logits(engine, &fixture.ids, chunk)));
        assert!(with == without, "{arch} in chunks of {chunk}");
    }
    // Looked at while it runs.
    let [with_routes, routes] = [&with, &without].map(|engine| {
        let mut session = engine.session().unwrap();
        let mut turn = [Turn::new(&mut session, &fixture.ids[..20], Logits::All).traced().timed()];
        engine.step(&mut turn).unwrap();
        let has_pair = turn[0].stages().iter().any(|stage| stage.name == "pair");
        assert_eq!(has_pair, arch != SPARK && engine.model().draft.is_some());
        turn[0].routes().to_vec()
    });
    assert_eq!(with_routes, routes, "{arch}");
    let [with, without] = [with, without].map(|engine| {
        let scheduler = Scheduler::new(engine, SchedulerOptions::default()).unwrap();
        let params = greedy(Drafts::Off);
        let events = submit(&scheduler, |sink| Job {
            embed: Some(Pooling::None),
            ..Job::new(fixture.ids[..50].to_vec(), params, sink)
        });
        let rows = |event| if let Event::Embedding(rows) = event { Some(rows) } else { None };
        bits(&events.iter().find_map(rows).unwrap())
    });
    assert!(with == without, "{arch}: hidden states");
}

#[test]
fn texts_are_the_same_with_the_block_on_a_card() {
    let Some(card) = card() else { return };
    ALL.into_iter().for_each(|arch| same_texts(&card, arch));
}

/// The host computes all experts of few rows.
#[test]
fn texts_are_the_same_with_the_block_in_a_split() {
    let Some(card) = card() else { return };
    for arch in ALL {
        for experts in [HostExperts::All, HostExperts::FirstLayers(1)] {
            let split = |builder: EngineBuilder| {
                let builder = builder.placement(Placement::split(0)).host_experts(experts.clone());
                builder.residency(ResidencyMode::Off).served_rows(32)
            };
            same_texts_of(&load(&card, arch, split), arch);
        }
    }
}

fn same_texts(card: &Card, arch: &str) {
    same_texts_of(&engine(card, arch, 1), arch);
}

fn same_texts_of(engine: &Engine, arch: &str) {
    let prompt = ids(&expected(arch)["ids"]);
    let mut session = engine.session().unwrap();
    for seed in [None, Some(3)] {
        let mut of = |drafts| {
            let mut params = greedy(drafts);
            if let Some(seed) = seed {
                params.sampling.temperature = 0.7;
                params.sampling.seed = Seed::Fixed(seed);
            }
            let mut generation = session.generate_tokens(&prompt[..20], &params).unwrap();
            let tokens: Vec<u32> = generation.by_ref().filter_map(|piece| piece.unwrap().token).collect();
            (tokens, generation.timings().drafted, generation.timings().accepted)
        };
        let without = of(Drafts::Off);
        // The second time its prompt is known, the third its graphs.
        for _ in 0..3 {
            let with = of(BLOCK);
            assert_eq!(with.0, without.0, "{arch}");
            assert!(with.1 > 48 && without.1 == 0, "{} guesses were checked", with.1);
            println!("{arch}: {} of {} guesses were right", with.2, with.1);
        }
        assert_eq!(of(Drafts::default()).0, without.0, "{arch}");
    }
}

#[test]
fn streams_with_the_block_say_what_each_says_alone() {
    let Some(card) = card() else { return };
    ALL.into_iter().for_each(|arch| streams_alone(&card, arch));
}

fn streams_alone(card: &Card, arch: &str) {
    let engine = engine(card, arch, 4);
    // No step has more than 32 rows, where attention rounds otherwise.
    let all = ids(&expected(arch)["ids"]);
    let prompts: Vec<&[u32]> = (0..4).map(|i| &all[10 * i..][..5 + i]).collect();
    let alone: Vec<Vec<u32>> = prompts
        .iter()
        .map(|prompt| {
            let mut session = engine.session().unwrap();
            let pieces = session.generate_tokens(prompt, &greedy(Drafts::Off)).unwrap();
            pieces.filter_map(|piece| piece.unwrap().token).collect()
        })
        .collect();
    let scheduler = Scheduler::new(engine, SchedulerOptions { slots: 4, queue_depth: 16 }).unwrap();
    let running: Vec<_> = prompts
        .iter()
        .map(|prompt| submit(&scheduler, |sink| Job::new(prompt.to_vec(), greedy(BLOCK), sink)))
        .collect();
    for (events, alone) in running.into_iter().zip(alone) {
        let mut tokens = Vec::new();
        let outcome = events.iter().find_map(|event| match event {
            Event::Token(token) => {
                tokens.push(token.sampled.id);
                None
            }
            Event::Done(outcome) => Some(outcome),
            Event::Failed(error) => panic!("{error}"),
            _ => None,
        });
        let progress = outcome.unwrap().progress;
        // A scheduler ends no text inside a character.
        let (said, rest) = tokens.split_at(alone.len());
        assert_eq!(said, alone, "{arch}");
        assert!(rest.len() < 4, "{arch}: {rest:?}");
        assert!(progress.drafted > 0, "{progress:?}");
        println!("{arch}: {} of {} guesses were right", progress.accepted, progress.drafted);
    }
}
