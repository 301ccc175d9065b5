//! The messages of a chat, checked.

use serde_json::{Map, Value, json};

use super::lenient_bool;
use crate::api::fields::{Fields, kind};
use crate::app::App;
use crate::error::{ApiError, ErrorKind};

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

/// Checks every message, and brings parts of text into one form.
pub(super) fn read(messages: Option<Value>) -> Result<Vec<Value>, ApiError> {
    match messages {
        None => Err(ApiError::invalid("'messages' is required")),
        Some(Value::Array(list)) => {
            let message = |(index, message)| check(index, message);
            list.into_iter().enumerate().map(message).collect()
        }
        Some(other) => {
            Err(ApiError::invalid(format!("Expected 'messages' to be an array, but it is {}", kind(&other))))
        }
    }
}

fn check(index: usize, message: Value) -> Result<Value, ApiError> {
    let Value::Object(mut fields) = message else {
        return Err(ApiError::invalid(format!("message {index} is {}, not an object", kind(&message))));
    };
    let Some(role) = fields.get("role").and_then(Value::as_str) else {
        return Err(ApiError::invalid(format!("message {index} has no 'role'")));
    };
    let assistant = role == "assistant";
    if !assistant && !fields.contains_key("content") {
        return Err(ApiError::invalid("All non-assistant messages must contain 'content'"));
    }
    if assistant && !fields.contains_key("content") && !fields.contains_key("tool_calls") {
        return Err(ApiError::invalid("Assistant message must contain either 'content' or 'tool_calls'!"));
    }
    match fields.get_mut("content") {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(Value::Array(parts)) => parts.iter_mut().try_for_each(part)?,
        Some(other) => {
            let found = kind(other);
            return Err(ApiError::invalid(format!(
                "Expected 'content' to be a string or an array, but in message {index} it is {found}"
            )));
        }
    }
    match fields.get("tool_calls") {
        None => {}
        Some(Value::Null) => drop(fields.remove("tool_calls")),
        Some(Value::Array(calls)) if calls.is_empty() => drop(fields.remove("tool_calls")),
        Some(Value::Array(calls)) => calls.iter().try_for_each(|call| check_call(index, call))?,
        Some(other) => {
            let found = kind(other);
            return Err(ApiError::invalid(format!(
                "'tool_calls' of message {index} is {found}, not an array"
            )));
        }
    }
    Ok(Value::Object(fields))
}

/// Checks a part of a content.
fn part(part: &mut Value) -> Result<(), ApiError> {
    let input = match part["type"].as_str() {
        Some("text") if part["text"].is_string() => return Ok(()),
        Some("text") => return Err(ApiError::invalid("content[] of type 'text' has no 'text'")),
        Some("refusal") => {
            let text = part["refusal"].as_str().unwrap_or_default();
            *part = json!({ "type": "text", "text": text });
            return Ok(());
        }
        Some("image_url" | "image" | "input_image") => "image",
        Some("input_audio" | "audio_url") => "audio",
        Some("input_video" | "video_url") => "video",
        _ => return Err(ApiError::invalid("unsupported content[].type")),
    };
    let message =
        format!("{input} input is not supported - hint: this model has no projector for it, send text only");
    Err(ApiError::new(ErrorKind::Server, message))
}

fn check_call(index: usize, call: &Value) -> Result<(), ApiError> {
    let wrong = |what: &str| Err(ApiError::invalid(format!("a tool call of message {index} {what}")));
    let Value::Object(fields) = call else { return wrong("is not an object") };
    if fields.get("type").is_some_and(|kind| !kind.is_null() && kind != "function") {
        return wrong("has a 'type' other than \"function\"");
    }
    let function = fields.get("function").and_then(Value::as_object);
    let Some(function) = function else { return wrong("has no 'function'") };
    if !function.get("name").is_some_and(Value::is_string) {
        return wrong("has no 'function.name'");
    }
    match function.get("arguments") {
        None | Some(Value::Null | Value::String(_) | Value::Object(_)) => Ok(()),
        Some(_) => wrong("has 'function.arguments' that are neither a string nor an object"),
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
    message.contains_key("tool_calls")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read;
    use crate::error::ErrorKind;

    fn fails(messages: Value) -> String {
        let error = read(Some(messages)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        error.message
    }

    #[test]
    fn messages_that_are_none_are_refused() {
        assert_eq!(read(None).unwrap_err().message, "'messages' is required");
        for messages in [
            json!("string"),
            json!([123]),
            json!([{}]),
            json!([{"role": 123}]),
            json!([{"role": "user"}]),
            json!([{"role": "system", "content": 123}]),
            json!([{"role": "user", "content": [{"type": "sound"}]}]),
            json!([{"role": "user", "content": [{"type": "text"}]}]),
            json!([{"role": "user", "content": "hi"}, {}]),
            json!([{"role": "assistant", "tool_calls": 1}]),
            json!([{"role": "assistant", "tool_calls": [{"type": "custom", "function": {"name": "f"}}]}]),
            json!([{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}]),
            json!([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}]),
        ] {
            fails(messages);
        }
        let neither = fails(json!([{"role": "assistant"}]));
        assert!(neither.contains("Assistant message must contain either 'content' or 'tool_calls'"));
    }

    #[test]
    fn messages_of_many_shapes_are_read() {
        let messages = json!([
            {"role": "wizard", "content": null},
            {"role": "user", "content": []},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "tool_calls": []},
            {"role": "assistant", "tool_calls": [{"id": null, "function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "tool_call_id": null, "content": [{"type": "text", "text": "x"}]},
        ]);
        let read = read(Some(messages)).unwrap();
        assert_eq!(read[2], json!({"role": "assistant", "content": [{"type": "text", "text": "no"}]}));
    }

    #[test]
    fn images_are_a_failure_of_the_server() {
        let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]);
        let error = read(Some(image)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Server);
        assert!(error.message.contains("image input is not supported"));
    }
}
