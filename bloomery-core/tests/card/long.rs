//! Long texts: positions are chosen among thousands, states have forgotten their beginnings.

use bloomery_core::{Context, Engine, Logits, Placement, Turn};

use super::common::{Fixture, kld, max_abs, median};
use super::{Card, card};

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
