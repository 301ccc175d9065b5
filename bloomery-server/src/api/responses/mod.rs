//! `POST /v1/responses` and the count of its input.

mod items;
mod request;

use std::sync::Arc;

use serde_json::json;

use super::fields::object;
use super::reply::ResponsesWire;
use super::turn::ChatTurn;
use super::{openai, pipeline};
use crate::app::App;
use crate::error::ApiError;
use crate::http::{Reply, Request};

/// A response.
pub(super) async fn responses(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let turn = ChatTurn::read(app, request::to_chat(&object(request)?)?)?;
    pipeline::reply(app, turn, |facts| Box::new(ResponsesWire::new(facts))).await
}

/// Tokens of the prompt that the same body would have.
pub(super) async fn input_tokens(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let tokens = openai::count(app, request::to_chat(&object(request)?)?).await?;
    Ok(Reply::json(&json!({ "object": "response.input_tokens", "input_tokens": tokens })))
}
