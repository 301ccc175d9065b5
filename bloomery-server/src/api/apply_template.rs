//! `POST /apply-template`: the prompt of a chat, and nothing else.

use std::sync::Arc;

use serde_json::json;

use super::fields::object;
use super::pipeline;
use super::turn::ChatTurn;
use crate::app::App;
use crate::error::ApiError;
use crate::http::{Reply, Request};

pub(super) async fn apply_template(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let turn = ChatTurn::read(app, object(request)?)?;
    let (_, layout) = pipeline::layout(app, turn).await?;
    Ok(Reply::json(&json!({ "prompt": layout.prompt })))
}
