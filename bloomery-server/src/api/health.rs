//! `GET /health`.

use serde_json::json;

use crate::app::App;
use crate::error::{ApiError, ErrorKind};
use crate::http::Reply;

/// 200 while jobs can run.
pub(super) fn health(app: &App) -> Result<Reply, ApiError> {
    match app.scheduler.status().failure {
        None => Ok(Reply::json(&json!({"status": "ok"}))),
        Some(reason) => Err(ApiError::new(ErrorKind::Unavailable, reason)),
    }
}
