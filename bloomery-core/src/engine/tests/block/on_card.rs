//! The block in other numerics than the reference's: the CPU's rounded ones, and those of a card. Without a card, tests of it say so
//! and end.

use std::path::Path;
use std::time::Instant;

use super::joined::{Joined, expected, ids};
use super::{ALL, Block, Drafts, Engine, Guess, Numerics, Params, Placement, QWEN35, Session, unsupported};
use crate::backend::{Answer, Batch, Readback};
use crate::engine::{Logits, Readout, Turn};
use crate::plan::{Cards, Context};
use crate::sampling::Needs;
use crate::state::Snapshot;

/// Positions of the prompt that guesses go on from: some of every page and of none.
const CUTS: std::ops::Range<usize> = 1..100;
/// Guesses upon guesses.
const CHAIN: usize = 4;

fn engine(arch: &str, sessions: usize, place: Placement, cards: &Cards, numerics: Numerics) -> Engine {
    let file = Joined::write(arch);
    let builder = Engine::builder(file.path()).placement(place).cards(cards.clone()).numerics(numerics);
    builder.sessions(sessions).plan().unwrap().load(|_| {}).unwrap()
}

/// Cards, if there is one.
pub(super) fn cards() -> Option<Cards> {
    let cards = Cards::read();
    match cards.facts(0) {
        Ok(_) => Some(cards),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

fn begun(engine: &Engine, tokens: &[u32]) -> Session {
    let mut session = engine.session().unwrap();
    session.prefill(tokens).unwrap();
    session
}

/// Logits of a chain of guesses after the session's tokens and the first of `tokens`. Guesses are added where there are none yet.
fn chain(session: &mut Session, tokens: &mut Vec<u32>) -> Vec<Vec<f32>> {
    let engine = session.engine.clone();
    let mut backend = engine.inner.backend().unwrap();
    session.settle();
    let (len, state) = (session.len(), &mut session.state);
    let room = [tokens[0]; CHAIN];
    assert!(engine.inner.cache().grow(state, &room, backend.as_mut()));
    let from = state.known().last().map(|known| known.state.id());
    let rows = (0..CHAIN)
        .map(|pass| {
            let batch = Batch {
                before: &[],
                following: &[],
                tokens: &[tokens[pass]],
                positions: &[(len + pass) as u32],
                sequences: &[0],
                pages: &[state.pages()],
                states: &[from],
                saves: &[],
                outputs: &[0],
                want: Readback::Logits,
                deep: None,
                trace: None,
                stages: None,
            };
            let Answer::Rows(row) = backend.guess(batch, pass > 0).unwrap() else {
                panic!("a row was wanted")
            };
            if tokens.len() == pass + 1 {
                tokens.push(Readout::best(row));
            }
            row.to_vec()
        })
        .collect();
    state.truncate(len, &mut engine.inner.cache().pool);
    rows
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Kullback-Leibler divergence of softmax(b) from softmax(a), in nats.
fn divergence(a: &[f32], b: &[f32]) -> f64 {
    let logs = |x: &[f32]| {
        let sum: f64 = x.iter().map(|&v| f64::from(v).exp()).sum();
        x.iter().map(|&v| f64::from(v) - sum.ln()).collect::<Vec<_>>()
    };
    let (p, q) = (logs(a), logs(b));
    p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum()
}

/// Every guess of a chain that is forced to be the exact one's is nearly the same: medians of the largest difference and of the
/// divergence are at most those given.
#[track_caller]
fn guesses_alike(arch: &str, exact: &Engine, other: &Engine, (most_apart, most_off): (f64, f64)) {
    let prompt = ids(&expected(arch)["ids"]);
    let (mut apart, mut off, mut same) = (Vec::new(), Vec::new(), 0);
    for after in CUTS.step_by(7) {
        let mut tokens = vec![prompt[after]];
        let wanted = chain(&mut begun(exact, &prompt[..after]), &mut tokens);
        let found = chain(&mut begun(other, &prompt[..after]), &mut tokens);
        for (wanted, found) in wanted.iter().zip(&found) {
            let most = wanted.iter().zip(found).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
            apart.push(most);
            off.push(divergence(wanted, found));
            same += usize::from(Readout::best(wanted) == Readout::best(found));
        }
    }
    let (all, apart, off) = (apart.len(), median(apart), median(off));
    let told = format!("{arch}: {same} of {all} the same, {apart:.2e} apart, divergence {off:.2e}");
    println!("{told}");
    assert!(apart <= most_apart && off <= most_off && same * 10 >= all * 9, "{told}");
}

#[test]
fn rounded_numerics_guess_alike() {
    let none = Cards::none("the CPU is asked for");
    let on_cpu = |numerics| engine(QWEN35, 1, Placement::Cpu, &none, numerics);
    guesses_alike(QWEN35, &on_cpu(Numerics::Exact), &on_cpu(Numerics::Fast), (2e-3, 1e-7));
}

#[test]
fn a_card_guesses_as_the_cpu_does() {
    let Some(cards) = cards() else { return };
    for arch in ALL {
        let exact = engine(arch, 1, Placement::Cpu, &cards, Numerics::Exact);
        let other = engine(arch, 1, Placement::card(0), &cards, Numerics::Fast);
        assert!(other.most_guesses() > 0);
        // What logits of whole models of such weights have in `tests/card.rs`.
        guesses_alike(arch, &exact, &other, (0.05, 2e-4));
    }
}

#[test]
fn guesses_on_a_card_are_the_same_in_company() {
    let Some(cards) = cards() else { return };
    ALL.into_iter().for_each(|arch| same_in_company(arch, &cards));
}

fn same_in_company(arch: &str, cards: &Cards) {
    let engine = engine(arch, 4, Placement::card(0), cards, Numerics::Fast);
    let prompt = ids(&expected(arch)["ids"]);
    let cuts = [5, 64, 65, 98];
    let mut sessions = cuts.map(|after| begun(&engine, &prompt[..after]));
    let alone: Vec<Vec<u32>> = sessions
        .iter_mut()
        .zip(cuts)
        .map(|(session, after)| {
            let mut guess =
                || engine.guess(&mut [Guess::new(session, prompt[after], CHAIN)]).unwrap().remove(0);
            // Eager, captured, replayed.
            let first = guess();
            assert!(first.len() == CHAIN && guess() == first && guess() == first);
            first
        })
        .collect();
    for most in [[4, 4, 4, 4], [1, 4, 2, 3]] {
        for _ in 0..3 {
            let mut guesses: Vec<Guess<'_>> = sessions
                .iter_mut()
                .zip(cuts)
                .zip(most)
                .map(|((session, after), most)| Guess::new(session, prompt[after], most))
                .collect();
            let found = engine.guess(&mut guesses).unwrap();
            for ((found, alone), most) in found.iter().zip(&alone).zip(most) {
                assert_eq!(found[..], alone[..most], "{arch}");
            }
        }
    }
    let graphs = engine.graphs().unwrap();
    assert!(
        [1, 4].iter().all(|&rows| graphs.iter().any(|graph| graph.guess && graph.rows == rows)),
        "{graphs:?}"
    );
}

#[test]
fn however_a_prompt_is_cut_the_card_knows_all_of_it() {
    let Some(cards) = cards() else { return };
    ALL.into_iter().for_each(|arch| knows_all(arch, &cards));
}

fn knows_all(arch: &str, cards: &Cards) {
    let engine = engine(arch, 1, Placement::card(0), cards, Numerics::Fast);
    let prompt = ids(&expected(arch)["ids"]);
    let mut whole = vec![prompt[90]];
    let rows = chain(&mut begun(&engine, &prompt[..90]), &mut whole);
    for piece in [1, 7, 40] {
        let mut session = engine.session().unwrap();
        for tokens in prompt[..90].chunks(piece) {
            session.prefill(tokens).unwrap();
        }
        let off = rows.iter().zip(chain(&mut session, &mut whole)).map(|(a, b)| divergence(a, &b));
        assert!(median(off.collect()) <= 2e-4, "{arch} in pieces of {piece}");
    }
}

/// A fork that goes another way leaves the original's guesses alone, and a snapshot brings them along.
#[track_caller]
fn guesses_stay(arch: &str, build: impl Fn() -> Engine) {
    let engine = build();
    let prompt = ids(&expected(arch)["ids"]);
    let guess = |session: &mut Session| {
        session.engine.clone().guess(&mut [Guess::new(session, prompt[70], CHAIN)]).unwrap().remove(0)
    };
    let mut session = begun(&engine, &prompt[..70]);
    let guessed = guess(&mut session);
    assert_eq!(guessed.len(), CHAIN);
    let mut fork = session.fork().unwrap();
    assert_eq!(guess(&mut fork), guessed);
    fork.prefill(&[prompt[0]; 70]).unwrap();
    assert_ne!(guess(&mut fork), guessed);
    assert_eq!(guess(&mut session), guessed);
    let bytes = session.snapshot().unwrap().to_bytes();
    let other = build();
    let mut restored = other.session().unwrap();
    restored.restore(&Snapshot::from_bytes(&bytes).unwrap()).unwrap();
    assert_eq!(guess(&mut restored), guessed);
}

#[test]
fn forks_and_snapshots_keep_what_guesses_go_on_from() {
    let none = Cards::none("the CPU is asked for");
    let cards = cards();
    for arch in ALL {
        guesses_stay(arch, || engine(arch, 2, Placement::Cpu, &none, Numerics::Fast));
        let Some(cards) = &cards else { continue };
        guesses_stay(arch, || engine(arch, 2, Placement::card(0), cards, Numerics::Fast));
    }
}

/// Microseconds of a guess of the block, and of steps, of the model `block.gguf` in the working directory; its layers that guess are in
/// `layers.gguf`, if they are a file of their own.
#[test]
#[ignore = "wants a card and a large model"]
fn what_a_pass_takes() {
    let Some(cards) = cards() else { return };
    let (file, layers) = (Path::new("block.gguf"), Path::new("layers.gguf"));
    let mut builder = Engine::builder(file).placement(Placement::card(0)).cards(cards);
    if layers.exists() {
        builder = builder.block(layers);
    }
    let engine = builder.sessions(4).context(Context::Tokens(2048)).plan().unwrap().load(|_| {}).unwrap();
    assert!(engine.most_guesses() > 0);
    let tokens: Vec<u32> = (0..512).map(|i| 100 + 7919 * i % 30_000).collect();
    let mut sessions: Vec<Session> = (0..4).map(|i| begun(&engine, &tokens[i..])).collect();
    for streams in [1, 4] {
        let (mut passes, mut steps) = (Vec::new(), [Vec::new(), Vec::new()]);
        for round in 0..60 {
            let start = Instant::now();
            let sessions = &mut sessions[..streams];
            let mut guesses: Vec<_> =
                sessions.iter_mut().map(|s| Guess::new(s, tokens[round], CHAIN)).collect();
            engine.guess(&mut guesses).unwrap();
            passes.push(start.elapsed().as_secs_f64() / CHAIN as f64);
            for (rows, times) in [1, 1 + CHAIN].into_iter().zip(&mut steps) {
                let start = Instant::now();
                let next = &tokens[round..round + rows];
                let mut turns: Vec<_> = sessions
                    .iter_mut()
                    .map(|session| Turn::new(session, next, Logits::All).needing(Needs::Top(1)))
                    .collect();
                engine.step(&mut turns).unwrap();
                times.push(start.elapsed().as_secs_f64());
            }
        }
        let [pass, one, five] = [passes, steps[0].clone(), steps[1].clone()].map(|times| 1e6 * median(times));
        println!(
            "{streams} streams: a pass {pass:.0} us, a step {one:.0} us, of five rows each {five:.0} us"
        );
    }
}

#[test]
fn what_a_card_cannot_run_of_a_block_is_left_out() {
    let Some(cards) = cards() else { return };
    let [whole, split] =
        [(unsupported(), Placement::card(0)), (unsupported(), Placement::split(0))].map(|(file, place)| {
            let plan = Engine::builder(file.path()).placement(place).cards(cards.clone()).plan().unwrap();
            plan.load(|_| {}).unwrap()
        });
    for engine in [whole, split] {
        assert_eq!(engine.most_guesses(), 0);
        let drafts = Drafts::Block(Block { most: 3, priced: false });
        let params = Params { max_tokens: Some(8), ignore_end: true, drafts, ..Params::greedy() };
        let mut session = engine.session().unwrap();
        let mut generation = session.generate_tokens(&ids(&expected(QWEN35)["ids"])[..40], &params).unwrap();
        assert_eq!(generation.by_ref().filter_map(|piece| piece.unwrap().token).count(), 8);
        assert_eq!(generation.timings().drafted, 0);
    }
}
