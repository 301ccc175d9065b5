//! The routes.

mod anthropic;
mod apply_template;
mod constraint;
mod fields;
mod generation;
mod health;
mod ids;
mod jobs;
mod openai;
mod outlet;
mod pipeline;
mod probs;
mod prompt;
mod reply;
mod responses;
mod sampling;
mod settings;
mod timings;
mod turn;

pub(crate) use pipeline::ChatModel;

use std::sync::Arc;

use hyper::Method;

use crate::app::App;
use crate::error::{ApiError, ErrorKind};
use crate::http::{Reply, Request};

/// Answers a request. Errors become replies here.
pub async fn answer(app: &Arc<App>, request: Request) -> Reply {
    route(app, request).await.unwrap_or_else(Reply::from)
}

async fn route(app: &Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let path = request.path.clone();
    match (&request.method, path.as_str()) {
        (&Method::GET, "/health" | "/v1/health") => health::health(app),
        (&Method::POST, "/apply-template") => apply_template::apply_template(app, &request).await,
        (&Method::POST, "/v1/chat/completions" | "/chat/completions") => openai::chat(app, &request).await,
        (&Method::POST, "/v1/chat/completions/control" | "/chat/completions/control") => {
            openai::control(&request)
        }
        (&Method::POST, "/v1/chat/completions/input_tokens" | "/chat/completions/input_tokens") => {
            openai::input_tokens(app, &request).await
        }
        (&Method::POST, "/v1/messages") => Ok(anthropic::messages(app, &request).await),
        (&Method::POST, "/v1/messages/count_tokens") => Ok(anthropic::count_tokens(app, &request).await),
        (&Method::POST, "/v1/responses" | "/responses") => responses::responses(app, &request).await,
        (&Method::POST, "/v1/responses/input_tokens" | "/responses/input_tokens") => {
            responses::input_tokens(app, &request).await
        }
        _ => Err(ApiError::new(ErrorKind::NotFound, "File Not Found")),
    }
}
