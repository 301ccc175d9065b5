//! `POST /tokenize` and `POST /detokenize`.

use std::sync::Arc;

use bloomery_core::tokenizer::Specials;
use serde_json::{Value, json};

use super::fields::{self, Fields};
use super::prompt::Prompts;
use crate::app::App;
use crate::error::ApiError;
use crate::http::{Reply, Request};

/// Text to ids, with their texts where they are wanted.
pub(super) async fn tokenize(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let body = fields::object(request)?;
    let fields = Fields(&body);
    let add_special = fields.bool("add_special")?.unwrap_or(false);
    let specials = match fields.bool("parse_special")? {
        Some(false) => Specials::AsText,
        _ => Specials::Parse,
    };
    let with_pieces = fields.bool("with_pieces")?.unwrap_or(false);
    let ids = match fields.get("content") {
        None => Vec::new(),
        Some(content) => Prompts::one(app, content)?.encode(app, add_special, specials).await?.concat(),
    };
    let tokens = match with_pieces {
        false => json!(ids),
        true => ids.iter().map(|&id| json!({"id": id, "piece": piece(app, id)})).collect(),
    };
    Ok(Reply::json(&json!({"tokens": tokens})))
}

/// A token's text, or its bytes where they are no whole characters.
fn piece(app: &App, id: u32) -> Value {
    let bytes = app.engine.tokenizer().token_bytes(id, true);
    std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), |text| json!(text))
}

/// Ids to text: the tokens' texts one after the other, so that parts of an answer can be joined.
pub(super) fn detokenize(app: &App, request: &Request) -> Result<Reply, ApiError> {
    let body = fields::object(request)?;
    let wrong = |what: &Value| {
        let vocab = app.engine.model().vocab;
        ApiError::invalid(format!("\"tokens\" must be an array of ids below {vocab}, but has {what}"))
    };
    let list = match body.get("tokens") {
        None => &Vec::new(),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong(other)),
    };
    let mut bytes = Vec::new();
    for value in list {
        let id =
            value.as_u64().filter(|&id| id < app.engine.model().vocab as u64).ok_or_else(|| wrong(value))?;
        bytes.extend_from_slice(app.engine.tokenizer().token_bytes(id as u32, true));
    }
    Ok(Reply::json(&json!({"content": String::from_utf8_lossy(&bytes)})))
}
