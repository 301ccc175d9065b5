//! Which rows go past the cut, and what is run again.

use super::layered::{Counts, NARROW, PAGE_BYTES, Room, engine, logits_of, results_of};
use crate::engine::{Engine, Logits, Turn};
use crate::session::Session;
use crate::state::PAGE;

fn ids(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|at| (at.wrapping_mul(7919) + seed * 131 + at / 64) % 3000).collect()
}

/// Adopts, runs the rest in one turn, and checks the logits. Returns rows, and those past the cut.
fn run(engine: &Engine, counts: &Counts, session: &mut Session, tokens: &[u32]) -> (usize, usize) {
    counts.take();
    let known = session.adopt(tokens).unwrap();
    let logits = session.prefill(&tokens[known..]).unwrap().to_vec();
    let expected = results_of(tokens).last().map(|&last| logits_of(last, engine.model().vocab));
    assert!(Some(logits) == expected, "{} tokens, {known} known", tokens.len());
    counts.take()
}

/// Rows past the cut that one right row at the end needs, and at most so many more.
const MOST: usize = NARROW.depth + NARROW.ramp + 3 * PAGE;

#[test]
fn of_a_long_prompt_the_end_goes_past_the_cut() {
    let (engine, counts) = engine(Room::of(1));
    let text = ids(1, 4000);
    let (rows, deep) = run(&engine, &counts, &mut engine.session().unwrap(), &text);
    assert_eq!(rows, 4000);
    assert!((NARROW.depth..=MOST).contains(&deep), "{deep}");
}

#[test]
fn all_rows_do_if_few_would_not() {
    let (engine, counts) = engine(Room::of(1));
    for len in [1, NARROW.depth, NARROW.reach + NARROW.ramp + PAGE] {
        assert_eq!(run(&engine, &counts, &mut engine.session().unwrap(), &ids(2, len)), (len, len));
    }
}

#[test]
fn the_next_turn_of_a_conversation_runs_nothing_again() {
    let (engine, counts) = engine(Room::of(2));
    let mut text = ids(3, 2000);
    let mut session = engine.session().unwrap();
    run(&engine, &counts, &mut session, &text);
    session.publish();
    text.extend(ids(4, 50));
    assert_eq!(run(&engine, &counts, &mut session, &text), (50, 50));
    session.publish();
    text.extend(ids(5, 1000));
    let mut other = engine.session().unwrap();
    let (rows, deep) = run(&engine, &counts, &mut other, &text);
    assert!(rows == 1000 && deep <= MOST, "{deep}");
    // The same prompt once more.
    assert_eq!(run(&engine, &counts, &mut other, &text), (1, 1));
}

#[test]
fn an_edit_runs_no_more_again_than_windows_reach() {
    let (engine, counts) = engine(Room::of(2));
    let mut text = ids(6, 3000);
    let mut session = engine.session().unwrap();
    run(&engine, &counts, &mut session, &text);
    session.publish();
    for (len, more) in [(1500, 10), (1400, 900), (64, 5), (63, 5), (0, 100)] {
        text.truncate(len);
        text.extend(ids(7 + len as u32, more));
        let (rows, deep) = run(&engine, &counts, &mut session, &text);
        assert!(rows <= more + MOST && deep <= MOST, "{len}: {rows}, {deep}");
        if more > MOST {
            assert_eq!(rows, more, "what is far from the new end need not be right");
        }
    }
}

/// The page that has more keys stays, whoever comes first.
#[test]
fn keys_of_one_text_serve_the_others() {
    for order in [[1200, 704], [704, 1200]] {
        let (engine, counts) = engine(Room::of(3));
        let text = ids(14, 1200);
        for len in order {
            let mut session = engine.session().unwrap();
            session.prefill(&text[..len]).unwrap();
            session.publish();
        }
        for len in [1200, 704] {
            for cut in [1, 2, 60] {
                let edited = [&text[..len - cut], &[7]].concat();
                let rows = run(&engine, &counts, &mut engine.session().unwrap(), &edited);
                assert_eq!(rows, (1, 1), "{cut} before {len}");
            }
        }
    }
}

#[test]
fn missing_keys_are_missing_after_a_stay_in_host_memory() {
    let (engine, counts) = engine(Room { pages: 24, parked: 60 * PAGE_BYTES, ..Room::of(1) });
    let texts = [ids(15, 1200), ids(16, 1200)];
    for text in &texts {
        let mut session = engine.session().unwrap();
        session.prefill(text).unwrap();
        session.publish();
    }
    assert!(engine.prefix_stats().parked_pages > 8);
    let edited = [&texts[0][..700], &[7]].concat();
    let (rows, _) = run(&engine, &counts, &mut engine.session().unwrap(), &edited);
    assert!(engine.prefix_stats().restored > 4 && (NARROW.depth..MOST).contains(&rows), "{rows}");
}

#[test]
fn a_prompt_that_is_given_up_goes_on_all_the_same() {
    let (engine, counts) = engine(Room::of(1));
    let text = ids(8, 3000);
    let mut session = engine.session().unwrap();
    let mut turn = [Turn::new(&mut session, &text[..1000], Logits::None).toward(3000)];
    engine.step(&mut turn).unwrap();
    assert_eq!(counts.take(), (1000, 0));
    let (rows, _) = run(&engine, &counts, &mut session, &text[..1001]);
    assert!(rows <= 1 + MOST, "{rows}");
}

#[test]
fn a_prompt_beside_others_leaves_them_whole() {
    let (engine, counts) = engine(Room::of(3));
    let mut sessions = [0, 1, 2].map(|_| engine.session().unwrap());
    let mut texts = [ids(9, 30), ids(10, 900), ids(11, 700)];
    for _ in 0..2 {
        let mut turns: Vec<Turn<'_>> = sessions
            .iter_mut()
            .zip(&texts)
            .map(|(session, text)| {
                let known = session.len();
                Turn::new(session, &text[known..], Logits::Last)
            })
            .collect();
        engine.step(&mut turns).unwrap();
        for (turn, text) in turns.iter().zip(&texts) {
            let expected = results_of(text).last().map(|&last| logits_of(last, engine.model().vocab));
            assert!(Some(turn.logits().to_vec()) == expected);
        }
        drop(turns);
        texts.iter_mut().for_each(|text| text.extend(ids(12, 400)));
    }
    let (rows, deep) = counts.take();
    assert_eq!(rows, 30 + 900 + 700 + 3 * 400);
    assert!(deep < rows * 3 / 4, "{deep} of {rows}");
}

#[test]
fn whole_prompts_can_be_asked_for() {
    let (mut engine, counts) = engine(Room::of(1));
    std::sync::Arc::get_mut(&mut engine.inner).unwrap().skips = false;
    let text = ids(13, 1000);
    assert_eq!(run(&engine, &counts, &mut engine.session().unwrap(), &text), (1000, 1000));
}
