//! The routes.

mod anthropic;
mod constraint;
mod fields;
mod generation;
mod health;
mod ids;
mod jobs;
mod outlet;
mod probs;
mod prompt;
mod reply;
mod responses;
mod sampling;
mod settings;
mod timings;
mod turn;

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
        _ => Err(ApiError::new(ErrorKind::NotFound, "File Not Found")),
    }
}
