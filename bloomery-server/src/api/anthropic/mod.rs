//! `POST /v1/messages` and the count of its input, with errors in this API's envelope.

mod billing;
mod blocks;
mod request;

use std::sync::Arc;

use serde_json::json;

use super::fields::object;
use super::reply::{AnthropicWire, anthropic_error};
use super::turn::ChatTurn;
use super::{openai, pipeline};
use crate::app::App;
use crate::error::{ApiError, ErrorKind};
use crate::http::{Reply, ReplyBody, Request};

/// A message.
pub(super) async fn messages(app: &Arc<App>, request: &Request) -> Reply {
    message(app, request).await.unwrap_or_else(failure)
}

/// Tokens of the prompt that the same body would have.
pub(super) async fn count_tokens(app: &Arc<App>, request: &Request) -> Reply {
    count(app, request).await.unwrap_or_else(failure)
}

async fn message(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let turn = ChatTurn::read(app, request::to_chat(&object(request)?)?)?;
    pipeline::reply(app, turn, |facts| Box::new(AnthropicWire::new(facts))).await
}

async fn count(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let tokens = openai::count(app, request::to_chat(&object(request)?)?).await?;
    Ok(Reply::json(&json!({ "input_tokens": tokens })))
}

/// Claude Code shortens its history where it reads that the prompt is too long.
fn failure(mut error: ApiError) -> Reply {
    let number = |name: &str| error.extra.get(name).and_then(serde_json::Value::as_u64);
    if let (ErrorKind::ExceedContextSize, Some(prompt), Some(context)) =
        (error.kind, number("n_prompt_tokens"), number("n_ctx"))
    {
        let too_long = format!("prompt is too long: {prompt} tokens > {context} maximum");
        error.message = format!("{too_long}; {}", error.message);
    }
    let body = anthropic_error(&error).to_string();
    let mut reply = Reply::from(error);
    reply.body = ReplyBody::Whole(body.into());
    reply
}
