//! Prompts in all their shapes, and text to token ids without holding up other requests.

use std::sync::Arc;

use bloomery_core::EngineError;
use bloomery_core::tokenizer::{Specials, Tokenizer};
use serde_json::Value;

use crate::app::App;
use crate::error::{ApiError, ErrorKind};

/// Bytes of text that are encoded on the spot, in a few milliseconds at most; more goes to a thread of its own.
const SHORT: usize = 16 << 10;

/// Runs `work` where it may take its time: on a blocking thread when there is much of it.
pub(crate) async fn off_thread<T: Send + 'static>(
    long: bool,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if !long {
        return work();
    }
    let failed = |error| ApiError::new(ErrorKind::Server, format!("a worker thread failed: {error}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

/// The ids of a text. `add_special` puts the tokens around it that the vocabulary asks for.
pub(crate) async fn encode(
    app: &Arc<App>,
    text: String,
    add_special: bool,
    specials: Specials,
) -> Result<Vec<u32>, ApiError> {
    let app = Arc::clone(app);
    let long = text.len() > SHORT;
    off_thread(long, move || encode_now(app.engine.tokenizer(), &text, add_special, specials)).await
}

fn encode_now(
    tokenizer: &Tokenizer,
    text: &str,
    add_special: bool,
    specials: Specials,
) -> Result<Vec<u32>, ApiError> {
    let ids = match add_special {
        true => tokenizer.encode_prompt(text, specials),
        false => tokenizer.encode(text, specials),
    };
    ids.map_err(|error| ApiError::invalid(EngineError::from(error).to_string()))
}

/// A part of a prompt.
#[derive(Debug)]
enum Part {
    Text(String),
    Token(u32),
}

/// Prompts of a request.
#[derive(Debug)]
pub(crate) struct Prompts(Vec<Vec<Part>>);

impl Prompts {
    /// Reads text, ids, a mixture, `{"prompt_string"}`, or an array of these. Ids have to be in the vocabulary.
    pub(crate) fn read(app: &App, value: &Value) -> Result<Self, ApiError> {
        let vocab = app.engine.model().vocab;
        let one = |value| parts(value, vocab);
        match value {
            Value::Array(list) if !list.iter().any(Value::is_number) => {
                if list.is_empty() {
                    return Err(ApiError::invalid("\"prompt\" must not be empty"));
                }
                list.iter().map(one).collect::<Result<_, _>>().map(Self)
            }
            value => Ok(Self(vec![one(value)?])),
        }
    }

    /// Reads one sequence: text, ids, or texts and ids one after the other.
    pub(crate) fn one(app: &App, value: &Value) -> Result<Self, ApiError> {
        Ok(Self(vec![parts(value, app.engine.model().vocab)?]))
    }

    /// The ids of all prompts. `add_special` as in [`encode`], for prompts that begin with text.
    pub(crate) async fn encode(
        self,
        app: &Arc<App>,
        add_special: bool,
        specials: Specials,
    ) -> Result<Vec<Vec<u32>>, ApiError> {
        let bytes: usize = self
            .0
            .iter()
            .flatten()
            .map(|part| match part {
                Part::Text(text) => text.len(),
                Part::Token(_) => 0,
            })
            .sum();
        let app = Arc::clone(app);
        off_thread(bytes > SHORT, move || {
            let tokenizer = app.engine.tokenizer();
            self.0.into_iter().map(|parts| join(tokenizer, parts, add_special, specials)).collect()
        })
        .await
    }
}

fn join(
    tokenizer: &Tokenizer,
    parts: Vec<Part>,
    add_special: bool,
    specials: Specials,
) -> Result<Vec<u32>, ApiError> {
    let mut ids = Vec::with_capacity(parts.len());
    for (index, part) in parts.into_iter().enumerate() {
        match part {
            Part::Token(id) => ids.push(id),
            Part::Text(text) => {
                ids.append(&mut encode_now(tokenizer, &text, add_special && index == 0, specials)?);
            }
        }
    }
    Ok(ids)
}

fn parts(value: &Value, vocab: usize) -> Result<Vec<Part>, ApiError> {
    match value {
        Value::String(text) => Ok(vec![Part::Text(text.clone())]),
        Value::Array(list) => list
            .iter()
            .map(|part| match part {
                Value::String(text) => Ok(Part::Text(text.clone())),
                Value::Number(number) => {
                    let id = number.as_u64().filter(|&id| id < vocab as u64);
                    id.and_then(|id| u32::try_from(id).ok()).map(Part::Token).ok_or_else(|| {
                        ApiError::invalid(format!(
                            "Prompt contains invalid tokens: {number} is no id of the vocabulary of {vocab}"
                        ))
                    })
                }
                _ => Err(shape()),
            })
            .collect(),
        Value::Object(map) => {
            if map
                .get("multimodal_data")
                .is_some_and(|data| data.as_array().is_none_or(|list| !list.is_empty()))
            {
                return Err(ApiError::invalid("multimodal_data: this model has no image or audio input"));
            }
            match map.get("prompt_string") {
                Some(text @ (Value::String(_) | Value::Array(_))) => parts(text, vocab),
                _ => Err(shape()),
            }
        }
        _ => Err(shape()),
    }
}

fn shape() -> ApiError {
    ApiError::invalid(
        "\"prompt\" must be a string, a list of token ids, a list of strings and token ids, \
         an object with \"prompt_string\", or a list of these",
    )
}
