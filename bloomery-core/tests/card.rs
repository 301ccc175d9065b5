//! A card against independent engines, against the CPU, and against itself. Without a card, every test says so and ends.
//!
//! Data is looked for where the crate was built, then below the working directory.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::print_stdout, reason = "tests that are skipped say so")]

#[path = "card/block.rs"]
mod block;
#[expect(dead_code, reason = "this binary uses a part of it")]
mod common;
#[path = "card/long.rs"]
mod long;
#[path = "card/near.rs"]
mod near;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bloomery_core::decide::{Json, Question};
use bloomery_core::sampling::{Needs, Sampler, SamplingParams, Seed, TopLogits};
use bloomery_core::{
    Bytes, Cards, Context, Engine, HostExperts, KvType, Logits, ModelSource, Numerics, Params, Placement,
    ResidencyMode, Session, Snapshot, Turn,
};
use common::{Fixture, ON_CARD, all_logits, argmax, kld, max_abs, median};
use near::close;

/// The first card, for one test at a time; all share it, so that kernels are loaded once.
struct Card {
    cards: Cards,
    _turn: MutexGuard<'static, ()>,
}

fn card() -> Option<Card> {
    static CARDS: OnceLock<Cards> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let cards = CARDS.get_or_init(Cards::read).clone();
    match cards.facts(0) {
        Ok(_) => Some(Card { cards, _turn: turn }),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

impl Card {
    fn builder(&self, fixture: &Fixture) -> bloomery_core::EngineBuilder {
        fixture.builder().placement(Placement::card(0)).cards(self.cards.clone())
    }

    fn engine(&self, fixture: &Fixture, sessions: usize) -> Engine {
        self.builder(fixture).sessions(sessions).plan().unwrap().load(|_| {}).unwrap()
    }

    /// Engines with a part of the experts on the host: all of them, and those of the first layer.
    fn splits(&self, fixture: &Fixture, sessions: usize, mode: ResidencyMode) -> Vec<Engine> {
        if fixture.routes.is_empty() {
            return Vec::new();
        }
        let split = |experts| {
            let builder = self.builder(fixture).placement(Placement::split(0)).sessions(sessions);
            // Two ways to compute an expert round differently: few rows go one way, whatever is faster.
            builder
                .host_experts(experts)
                .residency(mode)
                .served_rows(32)
                .plan()
                .unwrap()
                .load(|_| {})
                .unwrap()
        };
        [HostExperts::All, HostExperts::FirstLayers(1)].map(split).into()
    }
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn logits_stay_within_the_rounding_of_activations() {
    let Some(card) = card() else { return };
    for fixture in ON_CARD.map(Fixture::read) {
        let logits = all_logits(&card.engine(&fixture, 1), &fixture.ids, usize::MAX);
        let rows = fixture.rows.iter().zip(fixture.logits.chunks_exact(fixture.vocab));
        close(
            ("whole", KvType::F16),
            &fixture,
            rows.map(|(&row, expected)| (expected, &logits[row * fixture.vocab..][..fixture.vocab])),
        );
    }
}

/// The likeliest tokens after the fixture's text are the reference's, as far as that was sure.
#[track_caller]
fn continues_like_the_reference(engine: &Engine, fixture: &Fixture) {
    let mut session = engine.session().unwrap();
    let mut tokens = vec![argmax(session.prefill(&fixture.ids).unwrap())];
    while tokens.len() < fixture.greedy.len() {
        tokens.push(argmax(session.step(tokens[tokens.len() - 1]).unwrap()));
    }
    let sure = fixture.margins.iter().take_while(|&&margin| margin > 0.5).count();
    assert_eq!(tokens[..sure], fixture.greedy[..sure], "{}", fixture.name);
}

#[test]
fn greedy_continuations_match_the_reference_where_it_is_sure() {
    let Some(card) = card() else { return };
    for fixture in ON_CARD.map(Fixture::read) {
        continues_like_the_reference(&card.engine(&fixture, 1), &fixture);
    }
}

#[test]
fn experts_on_the_host_match_the_reference_too() {
    let Some(card) = card() else { return };
    for fixture in ON_CARD.map(Fixture::read) {
        for engine in card.splits(&fixture, 1, ResidencyMode::Adaptive) {
            for chunk in [usize::MAX, 33, 1] {
                let logits = all_logits(&engine, &fixture.ids, chunk);
                let rows = fixture.rows.iter().zip(fixture.logits.chunks_exact(fixture.vocab));
                let rows =
                    rows.map(|(&row, expected)| (expected, &logits[row * fixture.vocab..][..fixture.vocab]));
                close((&format!("chunks of {chunk}"), KvType::F16), &fixture, rows);
            }
            continues_like_the_reference(&engine, &fixture);
            let traffic = engine.traffic().unwrap().unwrap();
            // The first layer may be one without experts.
            assert!(traffic.host_read > Bytes(0) || traffic.slots == traffic.experts, "{traffic:?}");
        }
    }
}

#[test]
fn chunks_of_a_prompt_give_the_whole_within_rounding() {
    let Some(card) = card() else { return };
    for fixture in ON_CARD.map(Fixture::read) {
        for kv in [KvType::F16, KvType::Q8_0, KvType::F32] {
            let engine = card.builder(&fixture).kv(kv).plan();
            // A head of 16 has no blocks of 32.
            let Ok(engine) = engine.map(|plan| plan.load(|_| {}).unwrap()) else { continue };
            let whole = all_logits(&engine, &fixture.ids, usize::MAX);
            for chunk in [1, 7, 33] {
                let cut = all_logits(&engine, &fixture.ids, chunk);
                let rows = whole.chunks_exact(fixture.vocab).zip(cut.chunks_exact(fixture.vocab));
                close((&format!("chunks of {chunk}"), kv), &fixture, rows);
            }
        }
    }
}

#[test]
fn experts_match_the_reference_in_almost_every_row() {
    let Some(card) = card() else { return };
    for fixture in ON_CARD.map(Fixture::read).into_iter().filter(|fixture| !fixture.routes.is_empty()) {
        let engine = card.engine(&fixture, 1);
        let mut session = engine.session().unwrap();
        let mut turn = [Turn::new(&mut session, &fixture.ids, Logits::All).traced()];
        engine.step(&mut turn).unwrap();
        assert_eq!(turn[0].routes().len(), fixture.routes.len());
        let (mut same, mut all) = (0, 0);
        for ((used, found), expected) in turn[0].routes().iter().zip(&fixture.routes) {
            for (found, expected) in found.chunks_exact(*used).zip(expected) {
                let mut found = found.to_vec();
                found.sort_unstable();
                same += usize::from(&found == expected);
                all += 1;
            }
        }
        assert!(same * 10 >= all * 8, "{}: {same} of {all}", fixture.name);
    }
}

#[test]
fn streams_that_share_a_step_do_not_see_each_other() {
    let Some(card) = card() else { return };
    for name in [
        "llama-k-q8_0",
        "qwen2-k-q4_k_m",
        "qwen3moe-k-q4_k_m",
        "qwen3moe-small-bf16",
        "gemma3-small-bf16",
        "qwen35moe-k-q4_k_m",
        "deepseek2-k-q4_k_m",
    ] {
        let fixture = Fixture::read(name);
        let mut engines = card.splits(&fixture, 12, ResidencyMode::Off);
        engines.push(card.engine(&fixture, 12));
        engines.iter().for_each(|engine| share_steps(&fixture, engine));
    }
}

/// Steps of several sessions give each of them the bits of a step for itself.
fn share_steps(fixture: &Fixture, engine: &Engine) {
    let lens: Vec<usize> = (0..12).map(|i| 1 + (i * 29) % (fixture.ids.len() - 1)).collect();
    let mut sessions: Vec<Session> = lens
        .iter()
        .map(|&len| {
            let mut session = engine.session().unwrap();
            session.prefill(&fixture.ids[..len]).unwrap();
            session
        })
        .collect();
    let solo: Vec<Vec<u32>> = sessions
        .iter_mut()
        .zip(&lens)
        .map(|(session, &len)| {
            let row = bits(session.step(fixture.ids[len]).unwrap());
            session.truncate(len).unwrap();
            row
        })
        .collect();
    for streams in [2, 3, 4, 5, 8, 9, 12] {
        // Eager, captured, replayed.
        for _ in 0..3 {
            let mut turns: Vec<Turn<'_>> = sessions[..streams]
                .iter_mut()
                .zip(&lens)
                .map(|(session, &len)| Turn::new(session, &fixture.ids[len..len + 1], Logits::Last))
                .collect();
            engine.step(&mut turns).unwrap();
            for (stream, (turn, solo)) in turns.iter().zip(&solo).enumerate() {
                assert!(bits(turn.logits()) == *solo, "{}: stream {stream} of {streams}", fixture.name);
            }
            drop(turns);
            sessions.iter_mut().zip(&lens).for_each(|(session, &len)| session.truncate(len).unwrap());
        }
    }
}

#[test]
fn graphs_give_the_bits_of_single_kernels() {
    let Some(card) = card() else { return };
    for fixture in ON_CARD.map(Fixture::read) {
        let engine = card.engine(&fixture, 1);
        let mut session = engine.session().unwrap();
        let (len, chunk) = (fixture.ids.len() - 20, 20);
        session.prefill(&fixture.ids[..len]).unwrap();
        for rows in [1, 2, chunk] {
            for want in [Logits::Last, Logits::All] {
                let mut run = |timed: bool| {
                    session.truncate(len).unwrap();
                    let turn = Turn::new(&mut session, &fixture.ids[len..len + rows], want);
                    let mut turn = [if timed { turn.timed() } else { turn }];
                    engine.step(&mut turn).unwrap();
                    let stages: usize = turn[0].stages().iter().map(|stage| stage.kernels).sum();
                    (bits(turn[0].logits()), stages)
                };
                let (eager, kernels) = run(true);
                let runs = [0; 4].map(|_| run(false).0);
                assert!(runs.iter().all(|bits| *bits == eager), "{} {rows} rows, {want:?}", fixture.name);
                let outputs = if want == Logits::All { rows } else { 1 };
                let graphs = engine.graphs().unwrap();
                let graph = graphs.iter().find(|graph| (graph.rows, graph.outputs) == (rows, outputs));
                assert_eq!(graph.map(|graph| graph.nodes), Some(kernels), "{}: {graphs:?}", fixture.name);
            }
        }
    }
}

#[test]
fn a_layer_of_experts_is_eight_kernels_at_most() {
    let Some(card) = card() else { return };
    // A shared expert is no kernel more; latents are made keys and values by one each, with the rotation in the first.
    let routed = ["qwen3moe-k-q4_k_m", "qwen3moe-k-q3_k_m", "qwen3moe-small-bf16", "qwen35moe-k-q4_k_m"];
    for (name, most) in routed.map(|name| (name, 8)).into_iter().chain([("deepseek2-k-q4_k_m", 9)]) {
        let fixture = Fixture::read(name);
        let engine = card.engine(&fixture, 1);
        let mut session = engine.session().unwrap();
        for &id in &fixture.ids[..4] {
            session.step(id).unwrap();
        }
        let (layers, graphs) = (engine.model().layers.len(), engine.graphs().unwrap());
        let nodes = graphs.iter().find(|graph| graph.rows == 1).unwrap().nodes;
        // Beside the layers: embedding and head.
        assert!(nodes <= most * layers + 2, "{name}: {nodes} for {layers} layers");
        println!("{name}: {nodes} nodes, {layers} layers");
    }
}

#[test]
fn forks_cuts_and_snapshots_continue_like_a_straight_run() {
    let Some(card) = card() else { return };
    let names = ["qwen3moe-k-q4_k_m", "gemma3-small-bf16", "qwen35moe-small-bf16", "deepseek2-k-q4_k_m"];
    names.map(Fixture::read).iter().for_each(|fixture| forks_and_cuts(&card, fixture));
}

fn forks_and_cuts(card: &Card, fixture: &Fixture) {
    // Where a state is not known any more, rows before the cut run again: other numbers of rows, other rounding.
    let exact = !fixture.name.starts_with("qwen35moe");
    let same = |found: &[f32], straight: &[f32]| match exact {
        true => bits(found) == bits(straight),
        false => max_abs(found, straight) <= 0.05,
    };
    for kv in [KvType::F16, KvType::F32, KvType::Q8_0] {
        let build = || card.builder(fixture).kv(kv).sessions(2).plan().unwrap().load(|_| {}).unwrap();
        let engine = build();
        // Inside a page, at its end, and just past it.
        for cut in [1, 63, 64, 65, 100] {
            let next = fixture.ids[cut];
            let mut session = engine.session().unwrap();
            session.prefill(&fixture.ids).unwrap();
            session.truncate(cut).unwrap();
            let straight = session.step(next).unwrap().to_vec();
            session.truncate(cut).unwrap();
            let mut fork = session.fork().unwrap();
            // The fork goes another way and must leave the original alone.
            fork.prefill(&[fixture.ids[0]; 70]).unwrap();
            assert!(same(session.step(next).unwrap(), &straight), "{}: {kv:?} forked at {cut}", fixture.name);
            fork.truncate(cut).unwrap();
            assert!(same(fork.step(next).unwrap(), &straight), "{}: {kv:?} cut at {cut}", fixture.name);
            drop(fork);
            session.truncate(cut).unwrap();
            let bytes = session.snapshot().unwrap().to_bytes();
            let other = build();
            let mut restored = other.session().unwrap();
            restored.restore(&Snapshot::from_bytes(&bytes).unwrap()).unwrap();
            assert_eq!(restored.tokens(), &fixture.ids[..cut]);
            assert!(
                same(restored.step(next).unwrap(), &straight),
                "{}: {kv:?} restored at {cut}",
                fixture.name
            );
        }
        // A cache of the CPU's is laid out otherwise.
        let cpu = fixture.builder().kv(kv).numerics(Numerics::Fast).plan().unwrap().load(|_| {}).unwrap();
        let mut session = cpu.session().unwrap();
        session.prefill(&fixture.ids[..3]).unwrap();
        let snapshot = session.snapshot().unwrap();
        assert!(engine.session().unwrap().restore(&snapshot).is_err());
    }
}

#[test]
fn candidates_draw_what_whole_rows_draw() {
    let Some(card) = card() else { return };
    for fixture in ON_CARD.map(Fixture::read) {
        let engine = card.engine(&fixture, 1);
        for (top_k, temperature) in [(40, 0.9), (1, 1.0), (128, 1.5), (20, 0.0)] {
            let seed = Seed::Fixed(7);
            let sampling = SamplingParams { top_k, temperature, seed, ..SamplingParams::default() };
            let params = Params {
                sampling: sampling.clone(),
                max_tokens: Some(24),
                ignore_end: true,
                ..Params::default()
            };
            let mut session = engine.session().unwrap();
            let pieces = session.generate_tokens(&fixture.ids, &params).unwrap();
            let found: Vec<u32> = pieces.filter_map(|piece| piece.unwrap().token).collect();
            drop(session);
            let mut session = engine.session().unwrap();
            let mut sampler = Sampler::new(&sampling, 512).unwrap();
            let mut logits = session.prefill(&fixture.ids).unwrap().to_vec();
            let mut expected = Vec::new();
            for _ in 0..24 {
                let id = sampler.sample(&logits, None).unwrap().id;
                sampler.accept(id);
                expected.push(id);
                logits = session.step(id).unwrap().to_vec();
            }
            assert_eq!(found, expected, "{} top_k {top_k}", fixture.name);
        }
    }
}

#[test]
fn candidates_are_the_largest_logits() {
    let Some(card) = card() else { return };
    for fixture in ON_CARD.map(Fixture::read) {
        let engine = card.engine(&fixture, 3);
        let mut sessions: Vec<Session> = (0..3).map(|_| engine.session().unwrap()).collect();
        for k in [1, 2, 40, 128] {
            let mut runs = [Needs::Top(k), Needs::All].map(|needs| {
                sessions.iter_mut().for_each(|session| session.truncate(0).unwrap());
                let turns = sessions.iter_mut().zip(1..);
                let mut turns: Vec<Turn<'_>> = turns
                    .map(|(session, len)| {
                        Turn::new(session, &fixture.ids[..len], Logits::Last).needing(needs)
                    })
                    .collect();
                engine.step(&mut turns).unwrap();
                turns.iter().map(|turn| (turn.top().cloned(), turn.logits().to_vec())).collect::<Vec<_>>()
            });
            let (all, few) = (runs[1].split_off(0), runs[0].split_off(0));
            for ((top, none), (_, logits)) in few.iter().zip(&all) {
                assert!(none.is_empty());
                assert_eq!(top.as_ref(), Some(&TopLogits::of(logits, k)), "{} {k}", fixture.name);
            }
        }
    }
}

#[test]
fn a_story_is_the_cpus_up_to_ties() {
    stories(1, 500, 0.5);
}

/// The CPU's exact and rounded numerics choose 35 of these tokens otherwise, by 0.65 at most.
#[test]
#[ignore = "takes a minute of the CPU"]
fn ten_thousand_tokens_are_the_cpus_up_to_ties() {
    stories(10, 1000, 1.0);
}

/// The demo model tells stories of `count` tokens on the card, and the CPU reads them: where it would have gone on
/// otherwise, its best two must be closer than `lead`.
fn stories(stories: u32, count: usize, lead: f32) {
    let Some(card) = card() else { return };
    let demo = |place: Placement| {
        let builder = Engine::builder(ModelSource::demo()).context(Context::Tokens(1024)).placement(place);
        builder.cards(card.cards.clone()).plan().unwrap().load(|_| {}).unwrap()
    };
    let (on_card, on_cpu) = (demo(Placement::card(0)), demo(Placement::Cpu));
    let (mut parted, mut worst, mut divergence) = (0, 0.0_f32, Vec::new());
    for story in 0..stories {
        let mut tokens = vec![2638, 711, 258, 561, 463];
        tokens.extend((story > 0).then_some(300 + 37 * story));
        let prompt = tokens.len();
        let mut session = on_card.session().unwrap();
        let mut logits = session.prefill(&tokens).unwrap().to_vec();
        let mut rows = Vec::new();
        for _ in 0..count {
            tokens.push(argmax(&logits));
            rows.push(logits);
            logits = session.step(tokens[tokens.len() - 1]).unwrap().to_vec();
        }
        let expected = all_logits(&on_cpu, &tokens[..tokens.len() - 1], usize::MAX);
        let expected = expected.chunks_exact(on_cpu.model().vocab).skip(prompt - 1);
        for (index, (found, cpu)) in rows.iter().zip(expected).enumerate() {
            let (best, ours) = (argmax(cpu), tokens[prompt + index]);
            worst = worst.max(cpu[best as usize] - cpu[ours as usize]);
            parted += usize::from(best != ours);
            divergence.push(kld(cpu, found));
        }
    }
    let (divergence, all) = (median(divergence), stories as usize * count);
    let found = format!("{parted} of {all} tokens chosen otherwise, by {worst} at most, KLD {divergence:e}");
    assert!(parted <= all / 20 && worst <= lead && divergence < 3e-3, "{found}");
    println!("{found}");
}

#[test]
fn decisions_are_the_cpus_within_the_rounding_of_activations() {
    let Some(card) = card() else { return };
    let file = common::data_path("clef/clef-bf16.gguf");
    let decider = |placement: Placement, cards: Cards| {
        let builder = Engine::builder(file.clone())
            .placement(placement)
            .cards(cards)
            .sessions(2)
            .context(Context::Tokens(4096));
        builder.plan().unwrap().load(|_| {}).unwrap().decider().unwrap()
    };
    let on_card = decider(Placement::card(0), card.cards.clone());
    let on_cpu = decider(Placement::Cpu, card.cards.clone());
    let questions = [
        Question::choice("team", "Who should handle this?", [("billing", "Invoices"), ("technical", "Bugs")]),
        Question::score("urgency", "How urgent is it?", ["can wait", "this week", "today"]),
        Question::noul("outage", "Is the service down for everyone?"),
    ];
    // One step; and two, of which the last is read when all are done.
    for times in [2, 400, 1200] {
        let state = Json::from("The export fails since this morning. ".repeat(times).as_str());
        let expected = on_cpu.decide(&state, &questions).unwrap();
        let found = on_card.decide(&state, &questions).unwrap();
        assert_eq!((found.tokens, found.cut), (expected.tokens, expected.cut));
        let pairs = found.answers.iter().zip(&expected.answers);
        let off = pairs.flat_map(|(found, expected)| {
            let both = found.probabilities().into_iter().zip(expected.probabilities());
            both.map(|(found, expected)| (found - expected).abs())
        });
        let off = off.fold(0.0, f64::max);
        println!("{} tokens: probabilities differ by {off:.1e}", found.tokens);
        // The bound of `rounded_activations_change_little`: weights are in bf16 here, which rounds less.
        assert!(off <= 0.03, "{} tokens: {off}", found.tokens);
        assert_eq!(on_card.decide(&state, &questions).unwrap(), found, "the same twice");
    }
}
