//! Content blocks of one message as messages of the chat API.

use serde_json::{Map, Value, json};

use super::billing;
use crate::api::fields::kind;
use crate::error::ApiError;

/// What the blocks of one message hold.
#[derive(Debug, Default)]
struct Blocks {
    content: Vec<Value>,
    reasoning: String,
    calls: Vec<Value>,
    results: Vec<Value>,
}

/// Appends what a message says. Results of tools become messages after the rest of it.
pub(super) fn message(message: &Value, messages: &mut Vec<Value>) -> Result<(), ApiError> {
    let Value::Object(fields) = message else {
        return Err(ApiError::invalid(format!("a message is {}, not an object", kind(message))));
    };
    let role = fields.get("role").cloned().unwrap_or_default();
    match fields.get("content") {
        Some(Value::Array(list)) => {
            let mut blocks = Blocks::default();
            list.iter().for_each(|block| blocks.add(block, role == "system"));
            blocks.append(&role, messages);
        }
        None if role == "assistant" => {}
        None => messages.push(json!({ "role": role })),
        Some(Value::String(text)) if role == "system" => {
            messages.push(json!({ "role": role, "content": billing::settled(text) }));
        }
        Some(content) => messages.push(json!({ "role": role, "content": content })),
    }
    Ok(())
}

impl Blocks {
    fn add(&mut self, block: &Value, system: bool) {
        match block["type"].as_str() {
            Some("text") => {
                let text = block["text"].as_str().unwrap_or_default();
                let text = if system { billing::settled(text) } else { text.to_owned() };
                self.content.push(json!({ "type": "text", "text": text }));
            }
            Some("thinking") => self.reasoning.push_str(block["thinking"].as_str().unwrap_or_default()),
            Some("image") => self.content.extend(image(block)),
            Some("tool_use") => {
                let arguments = match &block["input"] {
                    Value::Null => "{}".to_owned(),
                    Value::String(text) => text.clone(),
                    input => input.to_string(),
                };
                let function = json!({ "name": block["name"], "arguments": arguments });
                self.calls.push(json!({ "id": block["id"], "type": "function", "function": function }));
            }
            Some("tool_result") => self.results.push(json!({
                "role": "tool",
                "tool_call_id": block["tool_use_id"],
                "content": result(&block["content"]),
            })),
            // Clients send blocks of features that this server does not have; the conversation goes on without them.
            other => tracing::debug!(kind = other, "a content block was left out"),
        }
    }

    fn append(self, role: &Value, messages: &mut Vec<Value>) {
        if !self.content.is_empty() || !self.calls.is_empty() || !self.reasoning.is_empty() {
            let mut message = Map::new();
            message.insert("role".to_owned(), role.clone());
            let content = if self.content.is_empty() { json!("") } else { json!(self.content) };
            message.insert("content".to_owned(), content);
            if !self.reasoning.is_empty() {
                message.insert("reasoning_content".to_owned(), json!(self.reasoning));
            }
            if !self.calls.is_empty() {
                message.insert("tool_calls".to_owned(), json!(self.calls));
            }
            messages.push(Value::Object(message));
        }
        messages.extend(self.results);
    }
}

/// The content of a tool message: text where the result is nothing but text.
fn result(content: &Value) -> Value {
    let Value::Array(blocks) = content else {
        return json!(content.as_str().unwrap_or_default());
    };
    let mut parts = Vec::new();
    for block in blocks {
        match block["type"].as_str() {
            Some("text") => {
                parts.push(json!({ "type": "text", "text": block["text"].as_str().unwrap_or_default() }))
            }
            Some("image") => parts.extend(image(block)),
            other => tracing::debug!(kind = other, "a block of a tool's result was left out"),
        }
    }
    if parts.iter().all(|part| part["type"] == "text") {
        return parts.iter().filter_map(|part| part["text"].as_str()).collect::<String>().into();
    }
    json!(parts)
}

/// An image as a part of the chat API.
fn image(block: &Value) -> Option<Value> {
    let source = &block["source"];
    let text = |key: &str| source[key].as_str().unwrap_or_default();
    let url = match source["type"].as_str()? {
        "base64" => {
            let media_type = source["media_type"].as_str().unwrap_or("image/jpeg");
            format!("data:{media_type};base64,{}", text("data"))
        }
        "url" => text("url").to_owned(),
        _ => return None,
    };
    Some(json!({ "type": "image_url", "image_url": { "url": url } }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    fn messages(message: Value) -> Vec<Value> {
        let mut messages = Vec::new();
        super::message(&message, &mut messages).unwrap();
        messages
    }

    #[test]
    fn an_assistant_turn_is_one_message() {
        let content = json!([
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "Let me look.", "cache_control": {"type": "ephemeral"}},
            {"type": "tool_use", "id": "t1", "name": "add", "input": {"b": 3, "a": 2}},
            {"type": "from_the_future"},
        ]);
        assert_eq!(
            messages(json!({"role": "assistant", "content": content})),
            [json!({
                "role": "assistant",
                "content": [{"type": "text", "text": "Let me look."}],
                "reasoning_content": "hm",
                "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "add", "arguments": "{\"b\":3,\"a\":2}"}}],
            })]
        );
    }

    #[test]
    fn results_stand_after_the_text() {
        let content = json!([
            {"type": "tool_result", "tool_use_id": "t1", "content": "5", "is_error": true},
            {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"type": "tool_result", "tool_use_id": "t3"},
            {"type": "text", "text": "Go on."},
        ]);
        assert_eq!(
            messages(json!({"role": "user", "content": content})),
            [
                json!({"role": "user", "content": [{"type": "text", "text": "Go on."}]}),
                json!({"role": "tool", "tool_call_id": "t1", "content": "5"}),
                json!({"role": "tool", "tool_call_id": "t2", "content": "ab"}),
                json!({"role": "tool", "tool_call_id": "t3", "content": ""}),
            ]
        );
    }

    #[test]
    fn images_keep_their_place_and_type() {
        let image = json!({"type": "image", "source": {"type": "base64", "data": "AAAA"}});
        let content = json!([{"type": "tool_result", "tool_use_id": "t", "content": [image]}, image]);
        let messages = messages(json!({"role": "user", "content": content}));
        let url = json!({"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}});
        assert_eq!(messages[0]["content"], json!([url]));
        assert_eq!(messages[1]["content"], json!([url]));
    }

    #[test]
    fn a_message_of_nothing_known_vanishes() {
        assert_eq!(
            messages(json!({"role": "assistant", "content": [{"type": "redacted_thinking"}]})),
            Vec::<Value>::new()
        );
        assert_eq!(messages(json!({"role": "assistant"})), Vec::<Value>::new());
        assert_eq!(messages(json!({"role": "user", "content": []})), Vec::<Value>::new());
    }
}
