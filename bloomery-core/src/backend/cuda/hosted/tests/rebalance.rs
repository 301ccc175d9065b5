//! Memory that goes from slots to caches and back between steps.

use super::*;
use crate::{EngineBuilder, Session};

/// Positions of a session.
const CONTEXT: usize = 256;
/// Positions of all sessions at the start.
const POOL: usize = 512;

fn builder(cards: &Cards, mode: ResidencyMode) -> EngineBuilder {
    let builder = Engine::builder(ModelSource::demo()).placement(Placement::Split(0)).residency(mode);
    let builder = builder.context(Context::Tokens(CONTEXT)).sessions(2).pool(POOL).step_rows(256);
    builder.cards(cards.clone()).card_margin(Bytes(64 << 20))
}

/// The demo model on a card that has room for a part of its experts.
fn tight(cards: &Cards, mode: ResidencyMode) -> Plan {
    let roomy = builder(cards, mode).plan().unwrap();
    let term = |what| roomy.terms().iter().find(|term| term.what == what).unwrap().bytes;
    let others: Bytes = roomy.terms().iter().filter(|term| term.what != "ring").map(|term| term.bytes).sum();
    builder(cards, mode).card_budget(others.saturating_sub(Bytes(term("expert slots").0 / 4))).plan().unwrap()
}

fn engine(cards: &Cards, mode: ResidencyMode) -> Engine {
    tight(cards, mode).load(|_| {}).unwrap()
}

fn slots(engine: &Engine) -> usize {
    engine.traffic().unwrap().unwrap().slots
}

fn cpu(cards: &Cards) -> Engine {
    builder(cards, ResidencyMode::Off).placement(Placement::Cpu).plan().unwrap().load(|_| {}).unwrap()
}

/// The likeliest tokens after what the session has, and the logits after the last one; the session is as before.
fn greedy(session: &mut Session, first: u32, count: usize) -> (Vec<u32>, Vec<f32>) {
    let (before, mut tokens, mut logits) = (session.len(), vec![first], Vec::new());
    for _ in 0..count {
        logits = session.step(tokens[tokens.len() - 1]).unwrap().to_vec();
        let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
        tokens.push(best as u32);
    }
    session.truncate(before).unwrap();
    (tokens, logits)
}

#[test]
fn a_card_too_small_has_some_of_the_experts() {
    for gigabytes in [8, 141] {
        let cards = Cards::given([crate::CardFacts::new("a card", Bytes(gigabytes << 30))]);
        let plan = tight(&cards, ResidencyMode::Adaptive);
        let split = plan.split.as_ref().unwrap();
        let slots: usize = split.pools.iter().map(|pool| pool.slots).sum();
        assert!((8..56).contains(&slots), "{plan}");
        let experts = vec![16; split.layers.len()];
        let caches = plan.terms().iter().find(|term| term.what == "KV cache").unwrap().bytes;
        let again = split.resized(&experts, plan.shared().saturating_sub(caches));
        assert_eq!(again, *split, "the same memory makes the same slots");
    }
    assert!(cpu(&Cards::none("for a test")).session().unwrap().step(5).is_ok());
}

#[test]
fn sessions_and_prefixes_stay_what_they_are() {
    with_card(|cards| {
        let (engine, cpu) = (engine(cards, ResidencyMode::Off), cpu(cards));
        let (mut here, mut there) = (engine.session().unwrap(), cpu.session().unwrap());
        let logits = here.prefill(&tokens(100)).unwrap().to_vec();
        close("prompt", &logits, there.prefill(&tokens(100)).unwrap());
        // A prefix that no session has.
        let remembered: Vec<u32> = tokens(170)[100..].to_vec();
        let mut other = engine.session().unwrap();
        other.prefill(&remembered).unwrap();
        other.publish();
        drop(other);
        let start = slots(&engine);
        let before = greedy(&mut here, 5, 20);
        let expected = greedy(&mut there, 5, 1).1;
        let most = match engine.rebalance(1 << 40) {
            Err(EngineError::PoolTooLarge { most, .. }) => most,
            other => panic!("{other:?}"),
        };
        assert!(most > POOL && slots(&engine) == start, "{most}");
        let mut slots_before = start;
        for pool in [1024, most, most / 2, 300, POOL] {
            let done = engine.rebalance(pool).unwrap();
            println!("{done:?}");
            assert_eq!(done.pool_tokens, pool.next_multiple_of(64));
            assert_eq!((done.slots, done.slots_before), (slots(&engine), slots_before));
            assert_eq!(engine.prefix_stats().total_pages * 64, done.pool_tokens);
            let grows = done.pool_tokens > done.pool_tokens_before;
            assert!(if grows { done.slots <= slots_before } else { done.slots >= slots_before });
            assert!(pool != most || done.slots < 4, "{done:?}");
            slots_before = done.slots;
            // As it is, as a graph's first run, and as the graph.
            for _ in 0..3 {
                close(&format!("{pool} positions"), &greedy(&mut here, 5, 1).1, &expected);
            }
            let mut other = engine.session().unwrap();
            assert_eq!(other.adopt(&remembered).unwrap(), remembered.len() - 1, "{pool} positions");
            let last = &remembered[remembered.len() - 1..];
            let mut fresh = cpu.session().unwrap();
            close("prefix", other.prefill(last).unwrap(), fresh.prefill(&remembered).unwrap());
        }
        assert_eq!(slots(&engine), start);
        let after = greedy(&mut here, 5, 20);
        assert_eq!(after.0, before.0, "text");
        assert!(after.1.iter().map(|x| x.to_bits()).eq(before.1.iter().map(|x| x.to_bits())), "bits");
        // Nothing is left of a session: everything can be had again.
        drop(here);
        let done = engine.rebalance(most).unwrap();
        assert_eq!(done.pool_tokens, most);
    });
}

#[test]
fn pages_of_sessions_are_not_taken() {
    with_card(|cards| {
        let engine = engine(cards, ResidencyMode::Adaptive);
        let (mut first, mut second) = (engine.session().unwrap(), engine.session().unwrap());
        first.prefill(&tokens(250)).unwrap();
        second.prefill(&tokens(130)).unwrap();
        let start = slots(&engine);
        let refused = engine.rebalance(0).unwrap_err();
        assert!(matches!(refused, EngineError::PoolInUse { wanted: 256, held: 448 }), "{refused}");
        assert_eq!((slots(&engine), engine.prefix_stats().total_pages), (start, POOL / 64));
        let expected = greedy(&mut first, 9, 1).1;
        second.truncate(0).unwrap();
        let done = engine.rebalance(0).unwrap();
        assert!(done.slots > start && done.pool_tokens == CONTEXT, "{done:?}");
        close("the first", &greedy(&mut first, 9, 1).1, &expected);
        let refused = second.prefill(&tokens(10)).unwrap_err();
        assert!(matches!(refused, EngineError::PoolExhausted { total: 4, .. }), "{refused}");
        assert!(matches!(engine.rebalance(CONTEXT).unwrap(), done if done.slots == slots(&engine)));
    });
}

#[test]
fn steps_go_on_while_the_pool_changes() {
    with_card(|cards| {
        let (engine, cpu) = (engine(cards, ResidencyMode::Adaptive), cpu(cards));
        let most = match engine.rebalance(1 << 40) {
            Err(EngineError::PoolTooLarge { most, .. }) => most,
            other => panic!("{other:?}"),
        };
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (engine, cpu, over) = (&engine, &cpu, &over);
            for salt in [0, 1000] {
                scope.spawn(move || {
                    let (mut here, mut there) = (engine.session().unwrap(), cpu.session().unwrap());
                    let (mut steps, mut distances) = (0, Vec::new());
                    while !over.load(std::sync::atomic::Ordering::Relaxed) || steps < 50 {
                        if here.len() + 1 == CONTEXT {
                            here.truncate(7).unwrap();
                            there.truncate(7).unwrap();
                        }
                        let token = (salt + steps * 31) % 3000;
                        let found = here.step(token).unwrap().to_vec();
                        distances.push(distance(&found, there.step(token).unwrap()));
                        steps += 1;
                    }
                    near(&format!("stream of {salt}"), distances);
                });
            }
            for turn in 0..30 {
                let pool = [POOL, most, 1024, most / 2][turn % 4];
                match engine.rebalance(pool) {
                    Ok(_) | Err(EngineError::PoolInUse { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    });
}

#[test]
fn slots_have_their_experts_after_every_change_and_go_on_moving() {
    with_card(|cards| {
        let tight = tight(cards, ResidencyMode::Adaptive);
        let mut some = CudaBackend::load(tight, (0, 0), POOL / 64, |_| {}).unwrap();
        let mut cpu = CpuBackend::new(plan(cards, Placement::Cpu), PAGES).unwrap();
        let rules = Rules { margin: 0, moves: 6, delay: 2, ..Rules::default() };
        some.hosted.as_mut().unwrap().residency.set_rules(rules);
        let most = some.most_pages().unwrap();
        for (round, pages) in [12, 5, most, 4, 30, 8].into_iter().enumerate() {
            for at in 0..40 {
                let token = (at * 71 + round as u32 * 13) % 3000;
                let found = step(&mut some, &[token], at as usize).unwrap();
                close(&format!("{pages} pages"), &found, &step(&mut cpu, &[token], at as usize).unwrap());
            }
            assert_eq!(some.rebalance(pages).unwrap(), pages);
            assert_eq!(some.card.caches.pages(), pages);
            let CudaBackend { stream, hosted, .. } = &mut some;
            check_slots(hosted.as_mut().unwrap(), stream);
        }
        assert!(some.traffic().unwrap().moves > 0);
    });
}
