//! Input items as messages of the chat API.

use serde_json::{Map, Value, json};

use crate::api::reply::inner_call_id;
use crate::error::ApiError;

/// Appends what one item says. Neighbouring items of the assistant are one message.
pub(super) fn item(item: &Value, messages: &mut Vec<Value>) -> Result<(), ApiError> {
    let Value::Object(fields) = item else {
        return Err(ApiError::invalid("Cannot determine type of 'item': it is not an object"));
    };
    let role = fields.get("role").and_then(Value::as_str);
    match (fields.get("type").and_then(Value::as_str), role) {
        (None | Some("message"), Some("assistant")) => {
            let assistant = assistant(messages);
            let content = parts(fields.get("content"), &["output_text", "input_text", "text"])?;
            let held = assistant.entry("content").or_insert_with(|| json!([]));
            if let Some(held) = held.as_array_mut() {
                held.extend(content);
            }
        }
        (None | Some("message"), Some(role)) => {
            let content = parts(fields.get("content"), &["input_text", "output_text", "text"])?;
            messages.push(json!({ "role": role, "content": content }));
        }
        (Some("function_call"), _) => {
            let arguments = match &item["arguments"] {
                Value::String(text) => text.clone(),
                Value::Null => "{}".to_owned(),
                other => other.to_string(),
            };
            let function = json!({ "name": item["name"], "arguments": arguments });
            let call = json!({ "id": call_id(item), "type": "function", "function": function });
            let calls = assistant(messages).entry("tool_calls").or_insert_with(|| json!([]));
            if let Some(calls) = calls.as_array_mut() {
                calls.push(call);
            }
        }
        (Some("function_call_output"), _) => {
            let content = match &item["output"] {
                Value::String(text) => json!(text),
                output => json!(parts(Some(output), &["input_text", "output_text", "text"])?),
            };
            messages.push(json!({ "role": "tool", "tool_call_id": call_id(item), "content": content }));
        }
        (Some("reasoning"), _) => reasoning(fields, messages),
        (Some(other), _) => {
            // Traces of tools that only the API's own servers have.
            tracing::warn!(kind = other, "an input item was left out");
        }
        (None, None) => return Err(ApiError::invalid("Cannot determine type of 'item'")),
    }
    Ok(())
}

/// The assistant's message at the end; a new one where there is none.
fn assistant(messages: &mut Vec<Value>) -> &mut Map<String, Value> {
    if messages.last().is_none_or(|last| last["role"] != "assistant") {
        messages.push(json!({ "role": "assistant" }));
    }
    messages.last_mut().and_then(Value::as_object_mut).expect("the last message is an object with a role")
}

/// Replayed reasoning. Its text may be missing: some clients only keep what was encrypted.
fn reasoning(fields: &Map<String, Value>, messages: &mut Vec<Value>) {
    let blocks = fields.get("content").and_then(Value::as_array).into_iter().flatten();
    let text: String = blocks.filter_map(|block| block["text"].as_str()).collect();
    if text.is_empty() {
        return;
    }
    let message = assistant(messages);
    let held = message.get("reasoning_content").and_then(Value::as_str).map(|held| format!("{held}\n{text}"));
    message.insert("reasoning_content".to_owned(), json!(held.unwrap_or(text)));
    // A message of an assistant has content, and this one gets none where the turn was cut.
    message.entry("content").or_insert_with(|| json!([]));
}

fn call_id(item: &Value) -> Value {
    item["call_id"].as_str().map_or(Value::Null, |id| json!(inner_call_id(id)))
}

/// The parts of a content, which may be text alone. `texts` are the types of parts that hold text.
fn parts(content: Option<&Value>, texts: &[&str]) -> Result<Vec<Value>, ApiError> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let list = match content {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(all)) => return Ok(vec![text(all)]),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(ApiError::invalid("'content' of an item must be text or an array of parts")),
    };
    let part = |part: &Value| {
        let kind = part["type"].as_str().unwrap_or_default();
        match kind {
            _ if texts.contains(&kind) => match part["text"].as_str() {
                Some(held) => Ok(text(held)),
                None => Err(ApiError::invalid(format!("a part of type '{kind}' requires 'text'"))),
            },
            "refusal" => Ok(text(part["refusal"].as_str().unwrap_or_default())),
            "input_image" => match &part["image_url"] {
                Value::Null => Err(ApiError::invalid("'image_url' is required")),
                url => Ok(json!({ "type": "image_url", "image_url": { "url": url } })),
            },
            "input_file" => Err(ApiError::invalid("'input_file' is not supported")),
            other => Err(ApiError::invalid(format!(
                "'type' of a part must be one of 'input_text', 'output_text', 'input_image' and 'refusal', but is '{other}'"
            ))),
        }
    };
    list.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    fn messages(items: Value) -> Vec<Value> {
        let mut messages = Vec::new();
        items.as_array().unwrap().iter().for_each(|item| super::item(item, &mut messages).unwrap());
        messages
    }

    #[test]
    fn a_turn_of_the_assistant_is_one_message() {
        let items = json!([
            {"role": "user", "content": "2+3?"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me"}], "status": "completed"},
            {"type": "function_call", "id": "fc_1", "call_id": "call_c1", "name": "add", "arguments": "{\"a\":2}"},
            {"type": "function_call", "call_id": "c2", "name": "add", "arguments": {"a": 1}},
            {"type": "function_call_output", "call_id": "call_c1", "output": "5"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "output_text", "text": "6"}]},
            {"role": "assistant", "content": "Five."},
        ]);
        let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "add", "arguments": arguments}});
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        assert_eq!(
            messages(items),
            [
                json!({"role": "user", "content": text("2+3?")}),
                json!({
                    "role": "assistant", "content": text("Let me"), "reasoning_content": "hm",
                    "tool_calls": [call("c1", "{\"a\":2}"), call("c2", "{\"a\":1}")],
                }),
                json!({"role": "tool", "tool_call_id": "c1", "content": "5"}),
                json!({"role": "tool", "tool_call_id": "c2", "content": text("6")}),
                json!({"role": "assistant", "content": text("Five.")}),
            ]
        );
    }

    #[test]
    fn reasoning_may_be_empty_and_unknown_items_are_left_out() {
        let items = json!([
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "content": null, "encrypted_content": "x"},
            {"type": "reasoning", "summary": []},
            {"type": "local_shell_call", "call_id": "x", "action": {}},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]},
        ]);
        assert_eq!(
            messages(items),
            [json!({"role": "developer", "content": [{"type": "text", "text": "d"}]})]
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for item in [
            json!("x"),
            json!({}),
            json!({"role": "user", "content": [{"type": "input_file"}]}),
            json!({"role": "user", "content": [{"type": "input_text"}]}),
            json!({"role": "user", "content": 1}),
        ] {
            assert!(super::item(&item, &mut Vec::new()).is_err(), "{item}");
        }
    }
}
