//! System messages where the template does not take them, and turns that do not alternate.

use serde_json::{Value, json};

use super::caps::TemplateCaps;

/// Moves system messages to where the template takes them.
pub(super) fn settle(messages: &mut Vec<Value>, caps: &TemplateCaps) {
    if !caps.late_system {
        merge_leading(messages);
        for message in messages.iter_mut().skip(1) {
            if message["role"] == "system" {
                message["role"] = json!("user");
            }
        }
    }
    if !caps.system && messages.first().is_some_and(|message| message["role"] == "system") {
        let system = messages.remove(0);
        match messages.first_mut().filter(|message| message["role"] == "user") {
            Some(user) => prepend(user, &system),
            None => messages.insert(0, json!({ "role": "user", "content": system["content"] })),
        }
    }
    if !caps.consecutive_users {
        merge_users(messages);
    }
}

fn merge_leading(messages: &mut Vec<Value>) {
    while messages.len() > 1 && messages[0]["role"] == "system" && messages[1]["role"] == "system" {
        let second = messages.remove(1);
        join(&mut messages[0], &second, "\n\n");
    }
}

fn merge_users(messages: &mut Vec<Value>) {
    let mut at = 1;
    while at < messages.len() {
        if messages[at]["role"] == "user" && messages[at - 1]["role"] == "user" {
            let second = messages.remove(at);
            join(&mut messages[at - 1], &second, "\n\n");
        } else {
            at += 1;
        }
    }
}

/// Adds the content of `second` to that of `first`.
fn join(first: &mut Value, second: &Value, between: &str) {
    match &second["content"] {
        Value::String(text) => append(first, &text.clone(), between),
        Value::Array(parts) => {
            let mut all = parts_of(&first["content"]);
            all.extend(parts.iter().cloned());
            first["content"] = Value::Array(all);
        }
        _ => {}
    }
}

/// Adds a text to a content.
pub(super) fn append(message: &mut Value, text: &str, between: &str) {
    match &mut message["content"] {
        Value::String(content) if content.is_empty() => text.clone_into(content),
        Value::String(content) => {
            content.push_str(between);
            content.push_str(text);
        }
        Value::Array(parts) => parts.push(json!({ "type": "text", "text": text })),
        other => *other = json!(text),
    }
}

fn prepend(user: &mut Value, system: &Value) {
    let mut first = json!({ "content": system["content"] });
    join(&mut first, user, "\n");
    user["content"] = first["content"].take();
}

fn parts_of(content: &Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts.clone(),
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        _ => Vec::new(),
    }
}
