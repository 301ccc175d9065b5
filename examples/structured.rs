//! An answer as a Rust value: the schema comes from the type, and the model can write nothing that does not fit it.
//! `cargo run --release --example structured [FILE]`.
#![expect(clippy::print_stdout, reason = "it is a program")]

use bloomery_core::constrain::{Grammar, GrammarError};
use bloomery_core::{Conversation, Engine, EngineError, Error, ModelSource, Params, StopReason};
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What the model is asked for. Without bounds a small model may never end a text or a list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Story {
    #[schemars(length(min = 1, max = 60))]
    title: String,
    place: Place,
    #[schemars(length(min = 1, max = 3))]
    animals: Vec<Animal>,
    moral: Option<Moral>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Place {
    Forest,
    Farm,
    Sea,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Animal {
    #[schemars(regex(pattern = "^[A-Z][a-z]{1,11}$"))]
    name: String,
    #[schemars(range(min = 1, max = 30))]
    age: u8,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Moral {
    #[schemars(length(max = 80))]
    text: String,
}

/// A type whose schema cannot be kept while writing: what a lookahead allows is known only later.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "no answer ever fills it")]
struct Unwritable {
    #[schemars(regex(pattern = "^(?=.*fox).*$"))]
    title: String,
}

/// Why there is no value.
#[derive(Debug, thiserror::Error)]
enum AskError {
    /// The type's schema, with the place and the reason.
    #[error(transparent)]
    Schema(#[from] GrammarError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The answer was not complete when it ended.
    #[error("the answer was cut short ({0:?}): {1}")]
    Cut(StopReason, String),
    /// The text fits the schema, and the type refuses it all the same: the two say different things.
    #[error("{0}: {1}")]
    Mismatch(serde_json::Error, String),
}

/// Asks a question whose answer is a `T`.
fn ask<T: DeserializeOwned + JsonSchema>(engine: &Engine, question: &str) -> Result<T, AskError> {
    let schema = schema_for!(T);
    let constraint = engine.constraint(&Grammar::json_schema(schema.as_value()))?;
    let mut chat = Conversation::new();
    // The constraint alone makes the answer fit. A model that has seen the schema also fills it with sense.
    chat.user(&format!("{question} Answer with JSON of this schema: {}", schema.as_value()));
    let mut session = engine.session()?;
    let params = Params { max_tokens: Some(512), ..engine.default_params() };
    let mut answer = chat.answer(&mut session, &params)?.constrained_by(constraint);
    let mut text = String::new();
    for piece in answer.by_ref() {
        text += &piece?.text;
    }
    match answer.stop_reason() {
        Some(StopReason::End) | None => {
            serde_json::from_str(&text).map_err(|error| AskError::Mismatch(error, text))
        }
        Some(reason) => Err(AskError::Cut(reason, text)),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).map_or_else(ModelSource::demo, |path| path.as_str().into());
    let engine = Engine::builder(model).plan()?.load(|_| {}).map_err(Error::from)?;

    let story: Story = ask(&engine, "Tell me a story about animals.")?;
    println!("{}, in the {:?}", story.title, story.place);
    for Animal { name, age } in &story.animals {
        println!("- {name}, {age} years old");
    }
    if let Some(Moral { text }) = &story.moral {
        println!("{text}");
    }

    // What is wrong with a schema is known before anything is generated.
    match ask::<Unwritable>(&engine, "Tell me a story about a fox.") {
        Err(AskError::Schema(GrammarError::Schema { path, message })) => {
            println!("not a schema to write by, at {path}: {message}");
        }
        other => println!("expected an error of the schema, not {other:?}"),
    }
    Ok(())
}
