//! Guesses of a model's own block.
//!
//! Models are the small ones of the other tests, joined with blocks of random weights; what a block says is from a float64 program
//! written from the architecture's description. Those of Qwen agree with llama.cpp on such files.

#[path = "../../../tests/common/block.rs"]
mod joined;
#[cfg(feature = "cuda")]
mod on_card;
#[cfg(feature = "cuda")]
mod plans;
mod spark;

use bloomery_kernels::cpu::Numerics;

use crate::draft::{Block, Drafts};
use crate::engine::{Engine, Guess};
use crate::generate::Params;
use crate::plan::Placement;
use crate::session::Session;
use joined::{Joined, data, expected, ids};

const QWEN35: &str = "qwen35moe";

const ALL: [&str; 4] = [QWEN35, "qwen4exp", "glm5next", V4];

const V4: &str = "deepseek4";

fn engine(arch: &str, sessions: usize) -> Engine {
    let file = Joined::write(arch);
    let builder = Engine::builder(file.path()).placement(Placement::Cpu).numerics(Numerics::Exact);
    builder.sessions(sessions).plan().unwrap().load(|_| {}).unwrap()
}

/// With a tensor of the block in a format that there are no products of on a card.
#[cfg(feature = "cuda")]
fn unsupported() -> Joined {
    use bloomery_gguf::Format;
    Joined::write_with(QWEN35, |name, format, data| match name.ends_with("nextn.eh_proj.weight") {
        false => Some((format, data.to_vec())),
        true => {
            assert_eq!(format, Format::BF16);
            let value = |half: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*half)) << 16);
            let values = data.as_chunks().0.iter().map(value);
            Some((Format::F64, values.flat_map(|value| f64::from(value).to_le_bytes()).collect()))
        }
    })
}

#[test]
fn chained_guesses_are_those_of_the_reference() {
    ALL.into_iter().for_each(chained_guesses);
}

fn chained_guesses(arch: &str) {
    let (engine, expected) = (engine(arch, 2), expected(arch));
    assert!(engine.most_guesses() > 0);
    let prompt = ids(&expected["ids"]);
    let cases: Vec<(usize, Vec<u32>)> = expected["guesses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| (case["after"].as_u64().unwrap() as usize, ids(&case["tokens"])))
        .collect();
    for (after, guesses) in &cases {
        // However a prompt is cut, the block knows all of it.
        for piece in [*after, 1, 7] {
            let mut session = engine.session().unwrap();
            for tokens in prompt[..*after].chunks(piece) {
                session.prefill(tokens).unwrap();
            }
            for most in [1, 4] {
                let found = engine.guess(&mut [Guess::new(&mut session, prompt[*after], most)]).unwrap();
                assert_eq!(found, [&guesses[..most]], "{arch} after {after} in pieces of {piece}");
                assert_eq!(session.len(), *after, "the session is as it was");
            }
        }
    }
    // Two sessions in one pass, the shorter one first.
    let mut sessions: Vec<Session> = cases[1..3]
        .iter()
        .map(|(after, _)| {
            let mut session = engine.session().unwrap();
            session.prefill(&prompt[..*after]).unwrap();
            session
        })
        .collect();
    let mut both: Vec<Guess<'_>> = sessions
        .iter_mut()
        .zip(&cases[1..3])
        .zip([2, 4])
        .map(|((session, (after, _)), most)| Guess::new(session, prompt[*after], most))
        .collect();
    assert_eq!(engine.guess(&mut both).unwrap(), [&cases[1].1[..2], &cases[2].1[..]]);
}

/// The model and its block in two files.
fn apart(model: &str, block: &str) -> Result<crate::Plan, crate::error::PlanError> {
    let [model, block] = [format!("{model}.gguf"), format!("{block}.gguf")].map(|name| data(&name));
    let builder = Engine::builder(model).block(block);
    builder.placement(Placement::Cpu).numerics(Numerics::Exact).plan()
}

#[test]
fn a_block_may_be_a_file_of_its_own() {
    for arch in ALL {
        let plan = apart(&format!("{arch}-small-bf16"), &format!("mtp-{arch}-bf16")).unwrap();
        let engine = plan.load(|_| {}).unwrap();
        let expected = expected(arch);
        let prompt = ids(&expected["ids"]);
        for case in expected["guesses"].as_array().unwrap() {
            let after = case["after"].as_u64().unwrap() as usize;
            let mut session = engine.session().unwrap();
            session.prefill(&prompt[..after]).unwrap();
            let found = engine.guess(&mut [Guess::new(&mut session, prompt[after], 4)]).unwrap();
            assert_eq!(found, [ids(&case["tokens"])], "{arch} after {after}");
        }
    }
}

#[test]
fn a_file_may_count_a_block_that_it_does_not_have() {
    let file = Joined::write_with(V4, |name, format, data| {
        (!name.ends_with("nextn.eh_proj.weight")).then(|| (format, data.to_vec()))
    });
    let builder = Engine::builder(file.path()).placement(Placement::Cpu).numerics(Numerics::Exact);
    let without = builder.plan().unwrap().load(|_| {}).unwrap();
    assert_eq!(without.most_guesses(), 0);
    let prompt = ids(&expected(V4)["ids"]);
    let said = |engine: &Engine| {
        let params =
            Params { drafts: Drafts::Off, max_tokens: Some(8), ignore_end: true, ..Params::greedy() };
        let mut session = engine.session().unwrap();
        let mut pieces = session.generate_tokens(&prompt[..40], &params).unwrap();
        pieces.by_ref().filter_map(|piece| piece.unwrap().token).collect::<Vec<u32>>()
    };
    assert_eq!(said(&without), said(&engine(V4, 1)));
}

#[test]
fn other_files_are_no_blocks() {
    let why = |model: &str, block: &str| apart(model, block).unwrap_err().to_string();
    let text = why("qwen4exp-small-bf16", "mtp-glm5next-bf16");
    assert!(text.contains("its architecture is `glm5-next`, the model's `qwen4exp`"), "{text}");
    let text = why("qwen4exp-small-bf16", "qwen4exp-small-bf16");
    assert!(text.contains("`qwen4exp.nextn_predict_layers` says that it has none"), "{text}");
    let text = why("qwen4exp-k-q4_k_m", "mtp-qwen4exp-bf16");
    assert!(text.contains("it follows 4 layers, the model has 3"), "{text}");
    let joined = Joined::write(QWEN35);
    let error = Engine::builder(joined.path()).block(data("mtp-qwen35moe-bf16.gguf")).plan().unwrap_err();
    assert!(error.to_string().contains("the model's own file has one"), "{error}");
}

#[test]
fn more_sessions_than_rows_of_a_step_guess_in_turns() {
    let file = Joined::write(QWEN35);
    let builder = Engine::builder(file.path()).placement(Placement::Cpu).numerics(Numerics::Exact);
    let engine = builder.sessions(3).step_rows(2).plan().unwrap().load(|_| {}).unwrap();
    let (expected, mut wanted) = (expected(QWEN35), Vec::new());
    let prompt = ids(&expected["ids"]);
    let cases = expected["guesses"].as_array().unwrap();
    let mut sessions = Vec::new();
    for case in &cases[..3] {
        let after = case["after"].as_u64().unwrap() as usize;
        let mut session = engine.session().unwrap();
        session.prefill(&prompt[..after]).unwrap();
        sessions.push((session, prompt[after]));
        wanted.push(ids(&case["tokens"]));
    }
    let most = [3, 1, 4];
    let guesses = sessions.iter_mut().zip(most);
    let mut guesses: Vec<Guess<'_>> =
        guesses.map(|((session, newest), most)| Guess::new(session, *newest, most)).collect();
    let found = engine.guess(&mut guesses).unwrap();
    for ((found, wanted), most) in found.iter().zip(&wanted).zip(most) {
        assert_eq!(found[..], wanted[..most]);
    }
}

#[test]
fn texts_are_the_same_with_the_block() {
    ALL.into_iter().for_each(same_texts);
}

fn same_texts(arch: &str) {
    same_texts_of(&engine(arch, 1), &ids(&expected(arch)["ids"]), 3);
}

/// With `most` guesses at a time.
fn same_texts_of(engine: &Engine, prompt: &[u32], most: usize) {
    let mut session = engine.session().unwrap();
    for seed in [None, Some(3)] {
        let mut of = |drafts| {
            let mut params = Params { max_tokens: Some(48), ignore_end: true, drafts, ..Params::greedy() };
            if let Some(seed) = seed {
                params.sampling.temperature = 0.7;
                params.sampling.seed = crate::sampling::Seed::Fixed(seed);
            }
            let mut generation = session.generate_tokens(&prompt[..40], &params).unwrap();
            let tokens: Vec<u32> = generation.by_ref().filter_map(|piece| piece.unwrap().token).collect();
            (tokens, generation.timings().drafted)
        };
        let without = of(Drafts::Off);
        let with = of(Drafts::Block(Block { most, priced: false }));
        assert_eq!(with.0, without.0);
        assert!(with.1 > 48 && without.1 == 0, "{} guesses were checked", with.1);
        assert_eq!(of(Drafts::default()).0, without.0);
    }
}
