//! `POST /v1/embeddings` and `/embedding(s)`.

use std::sync::Arc;

use crate::app::App;
use crate::error::ApiError;
use crate::http::{Reply, Request};

/// In OpenAI's form.
pub(super) async fn openai(app: &Arc<App>, _request: &Request) -> Result<Reply, ApiError> {
    Err(refusal(app))
}

/// In llama-server's form.
pub(super) async fn native(app: &Arc<App>, _request: &Request) -> Result<Reply, ApiError> {
    Err(refusal(app))
}

fn refusal(app: &App) -> ApiError {
    ApiError::not_supported(match app.options.embeddings {
        false => "This server does not support embeddings. Start it with `--embeddings`",
        true => "This engine has no embeddings",
    })
}
