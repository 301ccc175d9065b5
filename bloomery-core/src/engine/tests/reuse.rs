//! What is run again, and what is not.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::hybrid::{Counts, Room, engine, logits_of};
use crate::engine::Engine;
use crate::session::Session;
use crate::state::{PAGE, Snapshot};

fn ids(seed: u64, len: usize) -> Vec<u32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % 3000
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn rows(counts: &Arc<Counts>) -> usize {
    counts.rows.swap(0, Ordering::Relaxed)
}

/// Adopts, runs the rest, and checks the logits. Returns the rows that were run.
fn run(engine: &Engine, counts: &Arc<Counts>, session: &mut Session, tokens: &[u32]) -> usize {
    rows(counts);
    let known = session.adopt(tokens).unwrap();
    let logits = session.prefill(&tokens[known..]).unwrap().to_vec();
    assert_eq!(logits, logits_of(tokens, engine.model().vocab));
    let run = rows(counts);
    assert_eq!(run, tokens.len() - known);
    run
}

#[test]
fn an_edit_near_the_end_of_a_conversation_costs_a_few_hundred_tokens() {
    let (engine, counts) = engine(Room::of(3));
    let original = ids(1, 4000);
    let mut session = engine.session().unwrap();
    assert_eq!(run(&engine, &counts, &mut session, &original), 4000);
    session.publish();
    for (distance, most) in [(1, 64), (30, 100), (100, 200), (300, 600), (1000, 2200), (3000, 4000)] {
        for mut reader in [engine.session().unwrap(), session.fork().unwrap()] {
            let mut edited = original.clone();
            edited[4000 - distance] ^= 1;
            edited.extend(ids(2, 20));
            let run = run(&engine, &counts, &mut reader, &edited);
            assert!(run <= most + 20, "an edit {distance} tokens before the end ran {run} rows");
        }
    }
    // The next turn of the conversation goes on exactly where the last ended.
    let longer = [&original[..], &ids(3, 200)].concat();
    assert_eq!(run(&engine, &counts, &mut session, &longer), 200);
    drop(session);
    let mut other = engine.session().unwrap();
    assert_eq!(run(&engine, &counts, &mut other, &[&original[..], &ids(4, 9)].concat()), 9);
}

#[test]
fn truncation_to_every_length_is_exact() {
    let (engine, counts) = engine(Room::of(1));
    let original = ids(5, 300);
    let mut session = engine.session().unwrap();
    for len in 0..300 {
        session.truncate(0).unwrap();
        session.prefill(&original).unwrap();
        session.truncate(len).unwrap();
        assert_eq!((session.len(), session.tokens()), (len, &original[..len]));
        let snapshot = Snapshot::from_bytes(&session.snapshot().unwrap().to_bytes()).unwrap();
        let expected = logits_of(&[&original[..len], &[7]].concat(), engine.model().vocab);
        rows(&counts);
        assert_eq!(session.step(7).unwrap(), expected);
        let nearest =
            if len == 299 { 256 } else { [0, 128, 256].into_iter().rfind(|&at| at <= len).unwrap() };
        assert_eq!(rows(&counts), len - nearest + 1);
        session.restore(&snapshot).unwrap();
        assert_eq!(session.tokens(), &original[..len]);
        assert_eq!(session.step(7).unwrap(), expected, "restored at {len}");
    }
}

#[test]
fn texts_that_part_at_the_same_place_find_a_state_there() {
    let (engine, counts) = engine(Room::of(1));
    let system = ids(6, 17 * PAGE);
    let ask = |seed: u64| {
        let mut session = engine.session().unwrap();
        let run = run(&engine, &counts, &mut session, &[&system[..], &ids(seed, 200)].concat());
        session.publish();
        run
    };
    assert_eq!(ask(10), system.len() + 200);
    let second = ask(11);
    assert!(second > 200 && second < 400, "{second}");
    for seed in 12..20 {
        assert_eq!(ask(seed), 200, "the second has left the state where they part");
    }
}

#[test]
fn states_that_find_no_slot_come_back_from_host_memory() {
    let room = Room { slots: 6, reserve: 2, parked: 100_000, ..Room::of(1) };
    let (engine, counts) = engine(room);
    let texts: Vec<Vec<u32>> = (20..26).map(|seed| ids(seed, 700)).collect();
    for tokens in &texts {
        let mut session = engine.session().unwrap();
        assert_eq!(run(&engine, &counts, &mut session, tokens), 700);
        session.publish();
    }
    let stats = engine.prefix_stats();
    // What is parked are the ends; states on the way are forgotten.
    assert!(stats.parked_states >= 4 && stats.parked_states <= 6, "{stats:?}");
    assert!(stats.resident_states <= 4 && stats.dropped_states > 6, "{stats:?}");
    for tokens in &texts {
        let mut session = engine.session().unwrap();
        assert_eq!(run(&engine, &counts, &mut session, &[&tokens[..], &[1, 2, 3]].concat()), 3);
    }
    assert!(engine.prefix_stats().restored_states >= 5);
    // Without host memory they are forgotten, and run again.
    let (engine, counts) = super::hybrid::engine(Room { parked: 0, ..room });
    for tokens in texts.iter().chain(&texts) {
        let mut session = engine.session().unwrap();
        assert_eq!(run(&engine, &counts, &mut session, tokens), 700);
        session.publish();
    }
}

#[test]
fn where_texts_part_is_parked_and_what_is_on_the_way_is_not() {
    let room = Room { slots: 6, reserve: 2, parked: 100_000, ..Room::of(3) };
    let (engine, counts) = engine(room);
    let system = ids(30, 17 * PAGE);
    let ask = |seed: u64| {
        let mut session = engine.session().unwrap();
        let run = run(&engine, &counts, &mut session, &[&system[..], &ids(seed, 200)].concat());
        session.publish();
        run
    };
    ask(31);
    ask(32);
    assert_eq!(ask(33), 200, "the second has left the state where they part");
    // Another conversation needs all slots, and its past is where an edit would go on from.
    let other = ids(34, 2000);
    let mut session = engine.session().unwrap();
    run(&engine, &counts, &mut session, &other);
    session.publish();
    for seed in 35..39 {
        let mut session = engine.session().unwrap();
        run(&engine, &counts, &mut session, &ids(seed, 700));
        session.publish();
    }
    let restored = engine.prefix_stats().restored_states;
    let mut asking = engine.session().unwrap();
    assert_eq!(run(&engine, &counts, &mut asking, &[&system[..], &ids(39, 200)].concat()), 200);
    assert_eq!(engine.prefix_stats().restored_states, restored + 1, "it was in host memory");
    let mut edited = other.clone();
    edited[1900] ^= 1;
    assert_eq!(run(&engine, &counts, &mut session, &edited), 2000, "without a slot nothing is near the edit");
    // A sequence that goes on has no copy made of the state that it writes over.
    drop((asking, session));
    let mut grown = engine.session().unwrap();
    run(&engine, &counts, &mut grown, &ids(40, 600));
    let before = engine.prefix_stats().parked_states;
    for token in 0..700 {
        grown.step(token).unwrap();
        grown.publish_running();
    }
    assert!(engine.prefix_stats().parked_states <= before + 4, "{before} {:?}", engine.prefix_stats());
}

#[test]
fn a_long_text_keeps_few_states_and_none_of_them_by_accident() {
    let (engine, counts) = engine(Room { slots: 64, ..Room::of(1) });
    let mut session = engine.session().unwrap();
    let text = ids(7, 4500);
    session.prefill(&text[..500]).unwrap();
    for &token in &text[500..] {
        session.step(token).unwrap();
        session.publish_running();
    }
    let known: Vec<usize> = session.state.known().iter().map(|known| known.len).collect();
    assert!(known.len() <= 20, "{known:?}");
    assert_eq!(counts.saves.load(Ordering::Relaxed), counts.steps.load(Ordering::Relaxed) + 3, "{known:?}");
    for distance in [300, 1000, 2000] {
        let cut = text.len() - distance;
        rows(&counts);
        session.truncate(cut).unwrap();
        session.step(1).unwrap();
        assert!(rows(&counts) <= distance + 256, "a cut by {distance}: {known:?}");
        session.truncate(cut).unwrap();
        session.prefill(&text[cut..]).unwrap();
    }
}
