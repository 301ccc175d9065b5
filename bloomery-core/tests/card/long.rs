//! Long texts: positions are chosen among thousands, states have forgotten their beginnings.

use bloomery_core::{Context, Engine, EngineBuilder, HostExperts, Logits, Placement, Session, Turn};

use super::common::{Fixture, argmax, kld, max_abs, median};
use super::{Card, bits, card};

/// Positions of a text.
const LEN: usize = 8192;
/// Of those, the last that come one by one.
const STEPS: usize = 64;

fn engine(card: &Card, fixture: &Fixture, placement: Placement) -> Engine {
    let builder = fixture.builder().placement(placement).cards(card.cards.clone());
    builder.context(Context::Tokens(LEN)).step_rows(512).plan().unwrap().load(|_| {}).unwrap()
}

/// Logits of the last positions: of a part of the prompt, then of single tokens.
fn ends(engine: &Engine, text: &[u32]) -> Vec<f32> {
    let mut session = engine.session().unwrap();
    let (prompt, steps) = text.split_at(LEN - STEPS);
    let (before, last) = prompt.split_at(prompt.len() - STEPS);
    session.prefill(before).unwrap();
    let mut turn = [Turn::new(&mut session, last, Logits::All)];
    engine.step(&mut turn).unwrap();
    let mut logits = turn[0].logits().to_vec();
    drop(turn);
    steps.iter().for_each(|&token| logits.extend_from_slice(session.step(token).unwrap()));
    logits
}

/// What choices that fall otherwise do to single positions must not be what most positions have.
#[test]
fn long_texts_are_those_of_the_cpu() {
    let Some(card) = card() else { return };
    for name in
        ["qwen4exp-small-bf16", "glm5next-small-bf16", "deepseek4-small-bf16", "deepseek41-small-bf16"]
    {
        let fixture = Fixture::read(name);
        let text: Vec<u32> = (0..LEN as u32).map(|at| (at * 7919 + at / 64 * 31 + 11) % 1000).collect();
        let [wanted, found] = [Placement::Cpu, Placement::card(0)]
            .map(|placement| ends(&engine(&card, &fixture, placement), &text));
        let rows = wanted.chunks_exact(fixture.vocab).zip(found.chunks_exact(fixture.vocab));
        let (apart, off): (Vec<f64>, Vec<f64>) =
            rows.map(|(a, b)| (f64::from(max_abs(a, b)), kld(a, b))).unzip();
        let (apart, off) = (median(apart), median(off));
        println!("{name}: after {LEN} positions {apart:e}, KLD {off:e}");
        // Caches of 16 bits on both sides, whose products are summed in other orders: what k-quants may cause.
        assert!(apart <= 0.5 && off <= 3e-3, "{name}: {apart:e}, KLD {off:e}");
    }
}

/// Logits after `tokens` and after each of the likeliest that follow.
fn greedy(session: &mut Session, tokens: &[u32]) -> Vec<Vec<u32>> {
    let mut logits = vec![session.prefill(tokens).unwrap().to_vec()];
    for at in 0..50 {
        let next = argmax(&logits[at]);
        logits.push(session.step(next).unwrap().to_vec());
    }
    logits.iter().map(|logits| bits(logits)).collect()
}

/// Where layers behind a cut see only the end of a prompt, the rows before stop there, and nobody can tell: a card against itself, with
/// all experts, and with those on the host that come to it, or do not.
#[test]
fn prompts_whose_rows_stop_early_are_whole_ones() {
    let Some(card) = card() else { return };
    let split = |builder: EngineBuilder, rows: usize| {
        builder.placement(Placement::split(0)).host_experts(HostExperts::All).served_rows(rows)
    };
    for name in ["deepseek41-small-bf16", "deepseek41-k-q4_k"] {
        let fixture = Fixture::read(name);
        let engine = |kind: usize, whole: bool| {
            let builder = fixture.builder().placement(Placement::card(0)).cards(card.cards.clone());
            let builder =
                builder.context(Context::Tokens(2048)).sessions(2).step_rows(400).whole_prompts(whole);
            let builder = match kind {
                0 => builder,
                1 => split(builder, 32),
                _ => split(builder, 1024),
            };
            builder.plan().unwrap().load(|_| {}).unwrap()
        };
        for kind in 0..3 {
            let [parted, whole] = [false, true].map(|whole| engine(kind, whole));
            for len in [47, 150, 216, 300, 450, 700, 801, 1500] {
                let text: Vec<u32> = (0..len).map(|at| (at * 7919 + at / 64 * 31 + 11) % 500).collect();
                let [found, wanted] =
                    [&parted, &whole].map(|engine| greedy(&mut engine.session().unwrap(), &text));
                assert!(found == wanted, "{name}, kind {kind}: {len} tokens");
            }
            // One that ends beside one that does not, and a cut into what was left out.
            let text: Vec<u32> = (0..1500).map(|at| (at * 31 + at / 9) % 500).collect();
            let [found, wanted] = [&parted, &whole].map(|engine| {
                let mut sessions = [0; 2].map(|_| engine.session().unwrap());
                let [first, second] = &mut sessions;
                let mut turns = [
                    Turn::new(first, &text[..300], Logits::Last),
                    Turn::new(second, &text[200..1400], Logits::Last),
                ];
                engine.step(&mut turns).unwrap();
                let mut found = turns.each_ref().map(|turn| bits(turn.logits())).to_vec();
                drop(turns);
                second.truncate(500).unwrap();
                found.extend(greedy(second, &text[..100]));
                found
            });
            assert!(found == wanted, "{name}, kind {kind}: two sessions");
        }
    }
}
