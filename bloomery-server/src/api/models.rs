//! `GET /v1/models`.

use serde_json::{Value, json};

use super::file_type::file_type;
use super::ids;
use crate::app::App;
use crate::error::{ApiError, ErrorKind};
use crate::http::Reply;

/// The one model there is, for OpenAI's clients and for Ollama's.
pub(super) fn models(app: &App) -> Reply {
    let name = app.id();
    let ollama = json!({
        "name": name,
        "model": name,
        "modified_at": "",
        "size": "",
        "digest": "",
        "type": "model",
        "description": "",
        "tags": [""],
        "capabilities": [if app.decider.is_some() { "decision" } else { "completion" }],
        "parameters": "",
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "",
            "families": [""],
            "parameter_size": "",
            "quantization_level": "",
        },
    });
    Reply::json(&json!({"models": [ollama], "object": "list", "data": [entry(app)]}))
}

/// One model by its name.
pub(super) fn model(app: &App, name: &str) -> Result<Reply, ApiError> {
    if name == app.id() || app.options.aliases.iter().any(|alias| alias == name) {
        return Ok(Reply::json(&entry(app)));
    }
    Err(ApiError::new(ErrorKind::NotFound, format!("model '{name}' not found")))
}

fn entry(app: &App) -> Value {
    let facts = app.engine.facts();
    let model = app.engine.model();
    let decides = app.decider.is_some();
    let mut aliases = app.options.aliases.clone();
    aliases.sort();
    if aliases.is_empty() {
        aliases.push(app.id().to_owned());
    }
    let mut entry = json!({
        "id": app.id(),
        "aliases": aliases,
        "tags": app.options.tags,
        "object": "model",
        "architecture": {"input_modalities": ["text"], "output_modalities": [if decides { "decisions" } else { "text" }]},
        "created": ids::now(),
        "owned_by": "llamacpp",
        "meta": {
            "vocab_type": vocabulary_type(&facts.vocabulary),
            "n_vocab": model.vocab,
            "n_ctx": app.context(),
            "n_ctx_train": model.context,
            "n_embd": model.hidden,
            "n_params": facts.parameters,
            "size": facts.weights.0,
            "ftype": file_type(facts.file_type),
        },
    });
    if decides {
        entry["max_model_len"] = json!(app.context());
    }
    entry
}

/// llama.cpp's number of a kind of vocabulary.
fn vocabulary_type(model: &str) -> u32 {
    match model {
        "llama" => 1,
        "gpt2" => 2,
        _ => 0,
    }
}
