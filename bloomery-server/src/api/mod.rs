//! The routes.

mod answer;
mod anthropic;
mod apply_template;
mod caps;
mod completion;
mod completions;
mod constraint;
mod embeddings;
mod fields;
mod file_type;
mod generation;
mod health;
mod ids;
mod infill;
mod jobs;
mod lines;
mod lora;
mod metrics;
mod models;
mod native;
mod openai;
mod outlet;
mod pipeline;
mod placement;
mod probs;
mod prompt;
mod props;
mod reply;
mod responses;
mod rest;
mod sampling;
mod settings;
mod slot_files;
mod slots;
mod systemone;
#[cfg(test)]
mod tests;
mod timings;
mod tokenize;
mod turn;
mod ui;

pub(crate) use pipeline::ChatModel;
pub use ui::page;

use std::sync::Arc;

use hyper::Method;

use crate::app::App;
use crate::error::{ApiError, ErrorKind};
use crate::http::{Reply, Request};

/// Routes that a model without text has not.
const GENERATES: [&str; 17] = [
    "/completion",
    "/completions",
    "/v1/completions",
    "/infill",
    "/apply-template",
    "/v1/chat/completions",
    "/chat/completions",
    "/v1/chat/completions/control",
    "/chat/completions/control",
    "/v1/chat/completions/input_tokens",
    "/chat/completions/input_tokens",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
    "/responses",
    "/v1/responses/input_tokens",
    "/responses/input_tokens",
];

/// Answers a request. Errors become replies here.
pub async fn answer(app: &Arc<App>, request: Request) -> Reply {
    route(app, request).await.unwrap_or_else(Reply::from)
}

async fn route(app: &Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let path = request.path.clone();
    let get = matches!(request.method, Method::GET | Method::HEAD);
    let post = request.method == Method::POST;
    if post && app.decider.is_some() && GENERATES.contains(&path.as_str()) {
        return Err(systemone::only_decisions());
    }
    match path.as_str() {
        "/health" | "/v1/health" if get => health::health(app),
        "/v1/models" | "/models" if get => Ok(models::models(app)),
        "/props" if get => props::props(app).await,
        "/props" if post => props::set_props(app),
        "/slots" if get => slots::slots(app, &request),
        "/metrics" if get => metrics::metrics(app),
        "/completion" | "/completions" if post => completion::completion(app, &request).await,
        "/v1/completions" if post => completions::completions(app, &request).await,
        "/tokenize" if post => tokenize::tokenize(app, &request).await,
        "/detokenize" if post => tokenize::detokenize(app, &request),
        "/infill" if post => infill::infill(app, &request).await,
        "/embedding" | "/embeddings" if post => embeddings::native(app, &request).await,
        "/v1/embeddings" if post => embeddings::openai(app, &request).await,
        "/rerank" | "/reranking" | "/v1/rerank" | "/v1/reranking" if post => Err(rest::rerank()),
        "/lora-adapters" if get => Ok(lora::list()),
        "/lora-adapters" if post => lora::set(&request),
        "/v1/audio/transcriptions" | "/audio/transcriptions" if post => Err(rest::audio()),
        "/v1/systemone" if post => systemone::systemone(app, &request).await,
        "/tools" if get || post => Err(rest::tools()),
        "/cors-proxy" if get || post => Err(rest::proxy()),
        "/apply-template" if post => apply_template::apply_template(app, &request).await,
        "/v1/chat/completions" | "/chat/completions" if post => openai::chat(app, &request).await,
        "/v1/chat/completions/control" | "/chat/completions/control" if post => openai::control(&request),
        "/v1/chat/completions/input_tokens" | "/chat/completions/input_tokens" if post => {
            openai::input_tokens(app, &request).await
        }
        "/v1/messages" if post => Ok(anthropic::messages(app, &request).await),
        "/v1/messages/count_tokens" if post => Ok(anthropic::count_tokens(app, &request).await),
        "/v1/responses" | "/responses" if post => responses::responses(app, &request).await,
        "/v1/responses/input_tokens" | "/responses/input_tokens" if post => {
            responses::input_tokens(app, &request).await
        }
        _ => named(app, &request, get, post).await,
    }
}

/// Routes whose path has a name in it.
async fn named(app: &Arc<App>, request: &Request, get: bool, post: bool) -> Result<Reply, ApiError> {
    let path = request.path.as_str();
    if let Some(slot) = path.strip_prefix("/slots/").filter(|_| post) {
        return slot_files::act(app, slot, request).await;
    }
    let model = path.strip_prefix("/v1/models/").or_else(|| path.strip_prefix("/models/"));
    if let Some(model) = model.filter(|_| get) {
        return models::model(app, model);
    }
    Err(ApiError::new(ErrorKind::NotFound, "File Not Found"))
}
