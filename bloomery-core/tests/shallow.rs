//! Prompts most of whose rows stop where the layers behind see no further than the prompt's end: every result is that of prompts that
//! run whole, to the bit.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "this binary uses a part of it")]
mod common;

use bloomery_core::{Context, Engine, Logits, Params, Session, Turn};
use common::{Fixture, argmax};

const MODELS: [&str; 2] = ["deepseek41-small-bf16", "deepseek41-k-q4_k"];
/// Tokens that are generated after a prompt.
const MORE: usize = 50;
const FEW: usize = 6;

/// An engine that runs prompts whole, or not.
fn engine(name: &'static str, whole: bool, (sessions, step_rows): (usize, usize)) -> Engine {
    let builder = Fixture::read(name).builder().context(Context::Tokens(1024)).whole_prompts(whole);
    builder.sessions(sessions).step_rows(step_rows).plan().unwrap().load(|_| {}).unwrap()
}

fn text(seed: usize, len: usize) -> Vec<u32> {
    (0..len).map(|at| ((at * 7919 + at / 7 * 31 + seed * 101) % 500) as u32).collect()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

/// Logits after `tokens`, which the session does not have yet, and after each of the likeliest that follow.
fn run(session: &mut Session, tokens: &[u32], more: usize) -> Vec<Vec<u32>> {
    let mut logits = vec![session.prefill(tokens).unwrap().to_vec()];
    for at in 0..more {
        let next = argmax(&logits[at]);
        logits.push(session.step(next).unwrap().to_vec());
    }
    logits.iter().map(|logits| bits(logits)).collect()
}

/// The same of a session that runs nothing but that, whole.
fn expected(engine: &Engine, tokens: &[u32], more: usize) -> Vec<Vec<u32>> {
    run(&mut engine.session().unwrap(), tokens, more)
}

/// A prompt in turns of `part` tokens.
fn feed(engine: &Engine, session: &mut Session, tokens: &[u32], part: usize) {
    for tokens in tokens.chunks(part) {
        engine.step(&mut [Turn::new(session, tokens, Logits::None)]).unwrap();
    }
}

#[test]
fn prompts_of_all_lengths_end_and_go_on_alike() {
    for name in MODELS {
        let whole = engine(name, true, (1, 512));
        let parted = [512, 96].map(|rows| (rows, engine(name, false, (1, rows))));
        // About the depths of 24 and 47 rows, three times these, and where the first rows stop at the cut.
        for len in [23, 24, 25, 46, 47, 48, 72, 141, 151, 152, 215, 216, 640] {
            let tokens = text(len, len);
            let wanted = expected(&whole, &tokens, MORE);
            for (rows, engine) in &parted {
                let found = run(&mut engine.session().unwrap(), &tokens, MORE);
                assert!(found == wanted, "{name}: {len} tokens, steps of {rows}");
            }
        }
    }
}

#[test]
fn a_prompt_in_turns_is_the_whole() {
    let name = MODELS[0];
    let (whole, engine) = (engine(name, true, (1, 512)), engine(name, false, (1, 200)));
    let tokens = text(1, 700);
    let wanted = expected(&whole, &tokens, FEW);
    for part in [150, 230, 333] {
        let mut session = engine.session().unwrap();
        feed(&engine, &mut session, &tokens[..699], part);
        assert!(run(&mut session, &tokens[699..], FEW) == wanted, "turns of {part}");
    }
    let params = Params { max_tokens: Some(30), ignore_end: true, ..Params::greedy() };
    let [found, wanted] = [&engine, &whole].map(|engine| {
        let mut session = engine.session().unwrap();
        session.generate_tokens(&tokens, &params).unwrap().for_each(|piece| drop(piece.unwrap()));
        session.tokens().to_vec()
    });
    assert_eq!(found, wanted);
}

#[test]
fn several_prompts_share_steps() {
    for name in MODELS {
        let (whole, engine) = (engine(name, true, (1, 512)), engine(name, false, (4, 400)));
        let texts = [text(2, 40), text(3, 600), text(4, 333), text(5, 1)];
        let mut sessions = [0; 4].map(|_| engine.session().unwrap());
        let mut turns: Vec<Turn<'_>> = sessions
            .iter_mut()
            .zip(&texts)
            .map(|(session, tokens)| Turn::new(session, tokens, Logits::Last))
            .collect();
        engine.step(&mut turns).unwrap();
        let logits: Vec<Vec<f32>> = turns.iter().map(|turn| turn.logits().to_vec()).collect();
        drop(turns);
        for ((session, logits), tokens) in sessions.iter_mut().zip(logits).zip(&texts) {
            let next = argmax(&logits);
            let mut found = vec![bits(&logits)];
            found.extend(run(session, &[next], FEW - 1));
            assert!(found == expected(&whole, tokens, FEW), "{name}: {} tokens", tokens.len());
        }
    }
}

#[test]
fn cuts_forks_and_snapshots_go_on_from_everywhere() {
    let name = MODELS[0];
    let (whole, engine) = (engine(name, true, (1, 512)), engine(name, false, (3, 512)));
    let tokens = text(6, 640);
    let mut session = engine.session().unwrap();
    session.prefill(&tokens).unwrap();
    // In the part whose rows are missing, at its borders, behind it, and at the end; with little to follow, and much.
    for cut in [1, 64, 300, 512, 513, 534, 535, 576, 639, 640] {
        for more in [1, 230] {
            let rest = text(7, more);
            let wanted = expected(&whole, &[&tokens[..cut], &rest].concat(), FEW);
            let mut fork = session.fork().unwrap();
            fork.truncate(cut).unwrap();
            let snapshot = fork.snapshot().unwrap();
            assert!(run(&mut fork, &rest, FEW) == wanted, "cut to {cut}, then {more}");
            fork.restore(&snapshot).unwrap();
            assert!(run(&mut fork, &rest, FEW) == wanted, "restored at {cut}, then {more}");
        }
    }
}

#[test]
fn adopted_beginnings_go_on_alike() {
    let name = MODELS[0];
    let (whole, engine) = (engine(name, true, (1, 512)), engine(name, false, (2, 512)));
    let tokens = text(8, 640);
    let mut first = engine.session().unwrap();
    // Known while it is under way, and when it has ended.
    for part in [&tokens[..400], &tokens[400..]] {
        engine.step(&mut [Turn::new(&mut first, part, Logits::None)]).unwrap();
        first.publish();
    }
    let mut second = engine.session().unwrap();
    for common in [640, 600, 512, 420, 350, 5] {
        for more in [1, 200] {
            let prompt = [&tokens[..common], &text(9 + common, more)].concat();
            let known = second.adopt(&prompt).unwrap();
            assert!(known >= common.min(prompt.len() - 1));
            let found = run(&mut second, &prompt[known..], FEW);
            assert!(found == expected(&whole, &prompt, FEW), "{common} tokens known, then {more}");
            second.publish();
        }
    }
}

/// Rows that are wanted are all right, wherever they are.
#[test]
fn logits_of_all_rows_are_those_of_whole_prompts() {
    let name = MODELS[0];
    let (whole, engine) = (engine(name, true, (1, 512)), engine(name, false, (1, 512)));
    let tokens = text(10, 500);
    let [found, wanted] = [&engine, &whole].map(|engine| {
        let mut session = engine.session().unwrap();
        feed(engine, &mut session, &tokens[..300], 300);
        session.truncate(200).unwrap();
        let mut turn = [Turn::new(&mut session, &tokens[200..], Logits::All).traced()];
        engine.step(&mut turn).unwrap();
        (bits(turn[0].logits()), turn[0].routes().to_vec())
    });
    assert!(found == wanted);
}
