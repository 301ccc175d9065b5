//! `/lora-adapters`: there are none.

use serde_json::{Value, json};

use super::fields::{self, kind};
use crate::error::ApiError;
use crate::http::{Reply, Request};

/// The adapters.
pub(super) fn list() -> Reply {
    Reply::json(&json!([]))
}

/// Scales of adapters; one that does not exist can only be switched off.
pub(super) fn set(request: &Request) -> Result<Reply, ApiError> {
    let body = fields::json(request)?;
    let list = body
        .as_array()
        .ok_or_else(|| ApiError::invalid(format!("Request body must be an array, but is {}", kind(&body))))?;
    match list.iter().find(|entry| entry.get("scale").and_then(Value::as_f64) != Some(0.0)) {
        Some(entry) => Err(ApiError::invalid(format!("there is no adapter for {entry}"))),
        None => Ok(Reply::json(&json!({"success": true}))),
    }
}
