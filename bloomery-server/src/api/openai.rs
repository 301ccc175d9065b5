//! `POST /v1/chat/completions` and what hangs on it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::fields::{Fields, object};
use super::pipeline;
use super::reply::ChatWire;
use super::turn::ChatTurn;
use crate::app::App;
use crate::error::ApiError;
use crate::http::{Reply, Request};

/// A chat completion.
pub(super) async fn chat(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let turn = ChatTurn::read(app, object(request)?)?;
    pipeline::reply(app, turn, |facts| Box::new(ChatWire::new(facts))).await
}

/// Tokens of the prompt that the same body would have.
pub(super) async fn input_tokens(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let tokens = count(app, object(request)?).await?;
    Ok(Reply::json(&json!({ "object": "response.input_tokens", "input_tokens": tokens })))
}

/// Tokens of the prompt of a chat.
pub(super) async fn count(app: &Arc<App>, body: Map<String, Value>) -> Result<usize, ApiError> {
    let turn = ChatTurn::read(app, body)?;
    let (_, layout) = pipeline::layout(app, turn).await?;
    Ok(pipeline::tokens(app, &layout.prompt).await?.len())
}

/// Commands to a chat that runs. Budgets for thinking are set with the request and cannot be changed later, so there is
/// nothing that could be told.
pub(super) fn control(request: &Request) -> Result<Reply, ApiError> {
    let body = object(request)?;
    let fields = Fields(&body);
    let id = fields.string("id")?.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| ApiError::invalid("'id' is required"))?;
    match fields.string("action")? {
        Some("reasoning_end") => {
            let message =
                format!("completion {id} does not run, or was not started with 'reasoning_control'");
            Ok(Reply::json(&json!({ "success": false, "message": message })))
        }
        Some(other) => Err(ApiError::invalid(format!("unknown 'action': {other}"))),
        None => Err(ApiError::invalid("'action' is required")),
    }
}
