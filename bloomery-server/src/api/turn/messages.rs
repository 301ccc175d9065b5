//! The messages of a chat, and whether the last of them goes on.

use serde_json::{Map, Value};

use super::lenient_bool;
use crate::api::fields::{Fields, kind};
use crate::app::App;
use crate::error::ApiError;

/// Which part of the last message an answer goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Continue {
    /// The content; the reasoning where there is no content.
    Auto,
    /// The content.
    Content,
    /// The reasoning.
    Reasoning,
}

/// The list. What stands in it is checked where it is laid out.
pub(super) fn read(messages: Option<Value>) -> Result<Vec<Value>, ApiError> {
    match messages {
        None => Err(ApiError::invalid("'messages' is required")),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => {
            Err(ApiError::invalid(format!("Expected 'messages' to be an array, but it is {}", kind(&other))))
        }
    }
}

/// Whether the answer goes on with the last message, which then needs no header of an answer.
pub(super) fn continues(
    app: &App,
    fields: Fields<'_>,
    messages: &[Value],
    add_generation_prompt: &mut bool,
) -> Result<Option<Continue>, ApiError> {
    let assistant = |message: &Value| message["role"] == "assistant";
    let last = messages.last().filter(|last| assistant(last)).and_then(Value::as_object);
    let mut continues = match fields.get("continue_final_message") {
        Some(Value::Bool(true)) => Some(Continue::Auto),
        Some(Value::String(part)) if part == "content" => Some(Continue::Content),
        Some(Value::String(part)) if part == "reasoning_content" => Some(Continue::Reasoning),
        _ => None,
    };
    if continues.is_none() && app.options.prefill_assistant && last.is_some() {
        if messages.iter().rev().nth(1).is_some_and(assistant) {
            return Err(ApiError::invalid(
                "Cannot have 2 or more assistant messages at the end of the list.",
            ));
        }
        // A reply that calls tools is complete: there is nothing to go on with.
        if last.is_some_and(calls_tools) {
            return Err(ApiError::invalid("Cannot continue an assistant message that contains tool calls."));
        }
        continues = Some(Continue::Auto);
        *add_generation_prompt = false;
    }
    let Some(continues) = continues else { return Ok(None) };
    let explicit = lenient_bool(fields, "add_generation_prompt") == Some(true);
    if *add_generation_prompt && explicit {
        return Err(ApiError::invalid(
            "Cannot set both add_generation_prompt and continue_final_message to true.",
        ));
    }
    *add_generation_prompt = false;
    match last {
        Some(last) if calls_tools(last) => {
            Err(ApiError::invalid("Cannot continue an assistant message that contains tool calls."))
        }
        Some(_) => Ok(Some(continues)),
        None => Ok(None),
    }
}

fn calls_tools(message: &Map<String, Value>) -> bool {
    message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty())
}
