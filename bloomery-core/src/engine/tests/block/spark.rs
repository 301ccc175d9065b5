//! Layers that guess blocks of tokens: DSpark of DeepSeek-V4.1.
//!
//! What they guess is from a float64 program written from their description (`tests/data/models/spark.py`); no engine was at hand to
//! compare it with.

use std::path::Path;

use bloomery_gguf::{Array, Gguf, Value, Writer};
use bloomery_kernels::cpu::Numerics;

use super::joined::{self, data, ids};
use crate::draft::{Block, Drafts};
use crate::engine::{Engine, Guess};
use crate::generate::Params;
use crate::plan::{Context, EngineBuilder, HostExperts, Placement};
use crate::session::Session;

fn builder() -> EngineBuilder {
    let [layers, model] = joined::spark();
    Engine::builder(model).block(layers).placement(Placement::Cpu).numerics(Numerics::Exact)
}

fn engine(sessions: usize) -> Engine {
    builder().sessions(sessions).plan().unwrap().load(|_| {}).unwrap()
}

/// A prompt, and after how many of its tokens what is guessed.
fn expected() -> (Vec<u32>, Vec<(usize, Vec<u32>)>) {
    let value = joined::expected(joined::SPARK);
    let cases = value["guesses"].as_array().unwrap().iter();
    let cases = cases.map(|case| (case["after"].as_u64().unwrap() as usize, ids(&case["tokens"])));
    (ids(&value["ids"]), cases.collect())
}

#[test]
fn blocks_of_guesses_are_those_of_the_reference() {
    let engine = engine(2);
    let (prompt, cases) = expected();
    assert_eq!(engine.most_guesses(), 5);
    for (after, guesses) in &cases {
        for piece in [*after, 1, 7] {
            let mut session = engine.session().unwrap();
            for tokens in prompt[..*after].chunks(piece) {
                session.prefill(tokens).unwrap();
            }
            for most in [1, 4, 5, 9] {
                let found = engine.guess(&mut [Guess::new(&mut session, prompt[*after], most)]).unwrap();
                assert_eq!(found, [&guesses[..most.min(5)]], "after {after} in pieces of {piece}");
                assert_eq!(session.len(), *after, "the session is as it was");
            }
        }
    }
}

#[test]
fn sessions_guess_together_as_alone() {
    let engine = engine(8);
    let (prompt, cases) = expected();
    // More than the rows of a pass hold, and of different lengths.
    let mut sessions: Vec<Session> = cases
        .iter()
        .map(|(after, _)| {
            let mut session = engine.session().unwrap();
            session.prefill(&prompt[..*after]).unwrap();
            session
        })
        .collect();
    let most = [2, 5, 0, 1, 5, 3, 4];
    let mut all: Vec<Guess<'_>> = sessions
        .iter_mut()
        .zip(&cases)
        .zip(most)
        .map(|((session, (after, _)), most)| Guess::new(session, prompt[*after], most))
        .collect();
    let found = engine.guess(&mut all).unwrap();
    for ((found, (_, wanted)), most) in found.iter().zip(&cases).zip(most) {
        assert_eq!(found[..], wanted[..most]);
    }
}

#[test]
fn texts_are_the_same_with_blocks_of_guesses() {
    super::same_texts_of(&engine(1), &expected().0, 5);
}

#[test]
fn guesses_follow_cuts_forks_and_snapshots() {
    let engine = engine(3);
    let (prompt, cases) = expected();
    let mut session = engine.session().unwrap();
    session.prefill(&prompt[..90]).unwrap();
    for (after, wanted) in cases.iter().rev() {
        session.truncate(*after).unwrap();
        let mut fork = session.fork().unwrap();
        let snapshot = session.snapshot().unwrap();
        let mut restored = engine.session().unwrap();
        restored.restore(&snapshot).unwrap();
        for session in [&mut session, &mut fork, &mut restored] {
            let found = engine.guess(&mut [Guess::new(session, prompt[*after], 5)]).unwrap();
            assert_eq!(found, [&wanted[..]], "after {after}");
        }
    }
}

/// The first guess of a prompt, and each that follows a clear one, in rounded numerics.
#[cfg(feature = "cuda")]
#[test]
fn cards_and_splits_guess_as_the_reference_does() {
    let Some(cards) = super::on_card::cards() else { return };
    let value = joined::expected(joined::SPARK);
    let (prompt, cases) = expected();
    let margins = value["guesses"].as_array().unwrap().iter();
    let margins = margins.map(|case| case["margins"].as_array().unwrap().iter().map(|m| m.as_f64().unwrap()));
    // Rounded activations move logits by a third of this.
    let clear: Vec<usize> = margins.map(|of| of.take_while(|&margin| margin > 0.15).count()).collect();
    assert!(clear.iter().sum::<usize>() > 15);
    for (place, hosted) in
        [(Placement::Cpu, 0), (Placement::card(0), 0), (Placement::split(0), 0), (Placement::split(0), 2)]
    {
        let builder = builder().numerics(Numerics::Fast).placement(place).cards(cards.clone());
        let builder = builder.host_experts(HostExperts::FirstLayers(hosted));
        let engine = builder.sessions(cases.len()).plan().unwrap().load(|_| {}).unwrap();
        assert_eq!(engine.most_guesses(), 5, "{place:?}");
        // Captured when it is seen for the second time.
        for _ in 0..3 {
            for ((after, wanted), &clear) in cases.iter().zip(&clear) {
                let mut session = engine.session().unwrap();
                session.prefill(&prompt[..*after]).unwrap();
                let found = engine.guess(&mut [Guess::new(&mut session, prompt[*after], 5)]).unwrap();
                assert_eq!(found[0][..clear], wanted[..clear], "{place:?}, {hosted} layers, after {after}");
            }
        }
        let mut sessions: Vec<Session> = cases.iter().map(|_| engine.session().unwrap()).collect();
        for (session, (after, _)) in sessions.iter_mut().zip(&cases) {
            session.prefill(&prompt[..*after]).unwrap();
        }
        let of_cases = sessions.iter_mut().zip(&cases);
        let mut all: Vec<Guess<'_>> =
            of_cases.map(|(session, (after, _))| Guess::new(session, prompt[*after], 5)).collect();
        let found = engine.guess(&mut all).unwrap();
        for ((found, (_, wanted)), &clear) in found.iter().zip(&cases).zip(&clear) {
            assert_eq!(found[..clear], wanted[..clear], "{place:?}, {hosted} layers, in company");
        }
    }
}

#[test]
fn near_the_end_of_the_context_nothing_is_guessed() {
    let engine = builder().context(Context::Tokens(32)).plan().unwrap().load(|_| {}).unwrap();
    let (prompt, _) = expected();
    let mut session = engine.session().unwrap();
    session.prefill(&prompt[..27]).unwrap();
    let guess = |session: &mut Session| engine.guess(&mut [Guess::new(session, 5, 4)]).unwrap()[0].len();
    assert_eq!(guess(&mut session), 4);
    session.prefill(&prompt[27..28]).unwrap();
    assert_eq!(guess(&mut session), 0);
    let params = Params { ignore_end: true, ..Params::greedy() };
    session.truncate(0).unwrap();
    let count = session
        .generate_tokens(&prompt[..20], &params)
        .unwrap()
        .filter_map(|piece| piece.unwrap().token)
        .count();
    assert!(count >= 12, "{count} tokens until the context is full");
}

#[test]
fn steps_of_fewer_rows_than_a_block_have_no_guesses() {
    let engine = |rows| builder().step_rows(rows).plan().unwrap().load(|_| {}).unwrap();
    assert_eq!([4, 5].map(|rows| engine(rows).most_guesses()), [0, 5]);
    let (engine, (prompt, _)) = (engine(4), expected());
    let mut session = engine.session().unwrap();
    let drafts = Drafts::Block(Block { most: 5, priced: false });
    let params = Params { max_tokens: Some(8), ignore_end: true, drafts, ..Params::greedy() };
    let mut generation = session.generate_tokens(&prompt[..40], &params).unwrap();
    assert_eq!(generation.by_ref().filter_map(|piece| piece.unwrap().token).count(), 8);
    assert_eq!(generation.timings().drafted, 0);
}

#[test]
fn layers_that_do_not_fit_are_refused_by_name() {
    let [layers, model] = joined::spark();
    let why = |model: &Path, edit: &dyn Fn(&str, Value) -> Value| {
        let mut writer = Writer::new();
        let gguf = Gguf::open(&layers).unwrap();
        for (key, value) in gguf.metadata().iter() {
            writer.set(key, edit(key, value.clone()));
        }
        for tensor in gguf.tensors() {
            writer.tensor(&tensor.name, &tensor.dims, tensor.format, gguf.data(tensor).to_vec()).unwrap();
        }
        let file = std::env::temp_dir().join(format!("bloomery-spark-{}.gguf", std::process::id()));
        writer.write_file(&file).unwrap();
        let plan = Engine::builder(model).block(&file).placement(Placement::Cpu).plan();
        let _ = std::fs::remove_file(&file);
        plan.map(|_| ()).unwrap_err().to_string()
    };
    let set = |name: &'static str, number: u32| {
        move |key: &str, value| if key == name { Value::U32(number) } else { value }
    };
    let text = why(&data("qwen4exp-small-bf16.gguf"), &|_, value| value);
    assert!(text.contains("which guesses for `deepseek41`, not for `qwen4exp`"), "{text}");
    let text = why(&model, &set("dflash.embedding_length", 64));
    assert!(text.contains("`embedding_length` is 64, the model's 96"), "{text}");
    let text = why(&model, &set("dflash.block_size", 17));
    assert!(text.contains("dflash.block_size") && text.contains("17"), "{text}");
    let text = why(&model, &set("tokenizer.ggml.mask_token_id", 4000));
    assert!(text.contains("tokenizer.ggml.mask_token_id") && text.contains("4000"), "{text}");
    let text = why(&model, &|key, value| match key {
        "dflash.target_layers" => Value::Array(Array::I32(vec![4, 7])),
        _ => value,
    });
    assert!(text.contains("dflash.target_layers") && text.contains('7'), "{text}");
}
