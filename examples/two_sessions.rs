//! Two conversations in one engine whose steps share one pass over the weights, and the proof that sharing changes
//! nothing: each says what it says alone.
#![expect(clippy::print_stdout, reason = "it is a program")]

use bloomery_core::chat::ChatRequest;
use bloomery_core::tokenizer::Specials;
use bloomery_core::{Engine, EngineError, Error, Logits, ModelSource, Session, Turn};
use bloomery_examples::stats::argmax;
use serde_json::json;

const TOKENS: usize = 48;

fn main() -> Result<(), Error> {
    let model = std::env::args().nth(1).map_or_else(ModelSource::demo, |path| path.as_str().into());
    let engine = Engine::builder(model).sessions(2).plan()?.load(|_| {})?;
    let prompts = [
        prompt(&engine, "Tell me a story about a fox.")?,
        prompt(&engine, "Tell me a story about a girl who found a golden key in the wood.")?,
    ];

    let [alone_a, alone_b] = [alone(&engine, &prompts[0])?, alone(&engine, &prompts[1])?];
    let [shared_a, shared_b] = together(&engine, &prompts)?;

    for (name, alone, shared) in [("first", alone_a, shared_a), ("second", alone_b, shared_b)] {
        println!("{name}: {}", engine.tokenizer().decode(&shared, false));
        assert_eq!(alone, shared, "the {name} conversation must not notice the other");
    }
    println!("both as when they are alone: {TOKENS} tokens each, {TOKENS} shared steps");
    Ok(())
}

/// One session by itself.
fn alone(engine: &Engine, prompt: &[u32]) -> Result<Vec<u32>, EngineError> {
    let mut session = engine.session()?;
    let mut token = argmax(session.prefill(prompt)?);
    let mut tokens = vec![token];
    while tokens.len() < TOKENS {
        token = argmax(session.step(token)?);
        tokens.push(token);
    }
    Ok(tokens)
}

/// Two sessions: every step carries rows of both. Prompts of different lengths are no obstacle.
fn together(engine: &Engine, prompts: &[Vec<u32>; 2]) -> Result<[Vec<u32>; 2], EngineError> {
    let mut sessions = [engine.session()?, engine.session()?];
    let mut fresh = prompts.clone();
    let mut answers = [Vec::new(), Vec::new()];
    for _ in 0..TOKENS {
        let next = step(engine, &mut sessions, &fresh)?;
        for i in 0..2 {
            answers[i].push(next[i]);
            fresh[i] = vec![next[i]];
        }
    }
    Ok(answers)
}

/// Feeds both sessions in one call; returns the likeliest next token of each.
fn step(engine: &Engine, [a, b]: &mut [Session; 2], fresh: &[Vec<u32>; 2]) -> Result<[u32; 2], EngineError> {
    let mut turns = [Turn::new(a, &fresh[0], Logits::Last), Turn::new(b, &fresh[1], Logits::Last)];
    engine.step(&mut turns)?;
    Ok(turns.each_ref().map(|turn| argmax(turn.logits())))
}

/// A request in the model's chat template, or the bare text where it has none.
fn prompt(engine: &Engine, text: &str) -> Result<Vec<u32>, EngineError> {
    let Some(template) = engine.chat_template() else {
        return Ok(engine.tokenizer().encode_prompt(text, Specials::AsText)?);
    };
    let messages = vec![json!({"role": "user", "content": text})];
    let text =
        template.render(&ChatRequest { messages, add_generation_prompt: true, ..Default::default() })?;
    Ok(engine.tokenizer().encode(&text, Specials::Parse)?)
}
