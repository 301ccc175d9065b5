//! A body of `/v1/messages` as one of `/v1/chat/completions`.

use serde_json::{Map, Value, json};

use super::billing;
use super::blocks;
use crate::api::fields::{field_error, kind};
use crate::error::ApiError;

/// The budget of a request that names none.
const MAX_TOKENS: u64 = 4096;

/// The budget of thinking that is switched on without one.
const THINKING: u64 = 10_000;

/// Fields that mean the same in both APIs.
const SAME: [&str; 5] = ["temperature", "top_p", "top_k", "stream", "chat_template_kwargs"];

/// The chat request that asks for the same. Fields that have no equal are left out.
pub(super) fn to_chat(body: &Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    let mut chat = Map::new();
    let mut messages = Vec::new();
    if let Some(system) = body.get("system") {
        let system = system_text(system)?;
        if !system.is_empty() {
            messages.push(json!({ "role": "system", "content": system }));
        }
    }
    match body.get("messages") {
        Some(Value::Array(list)) => {
            for message in list {
                blocks::message(message, &mut messages)?;
            }
        }
        Some(other) => {
            return Err(ApiError::invalid(format!(
                "Expected 'messages' to be an array, but it is {}",
                kind(other)
            )));
        }
        None => return Err(ApiError::invalid("'messages' is required")),
    }
    chat.insert("messages".to_owned(), Value::Array(messages));
    let dropped = tools(body, &mut chat);
    tool_choice(body, &dropped, &mut chat);
    if let Some(stop) = body.get("stop_sequences") {
        chat.insert("stop".to_owned(), stop.clone());
    }
    chat.insert(
        "max_tokens".to_owned(),
        body.get("max_tokens").cloned().unwrap_or_else(|| json!(MAX_TOKENS)),
    );
    for name in SAME {
        if let Some(value) = body.get(name) {
            chat.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(thinking) = body.get("thinking")
        && thinking["type"] == "enabled"
    {
        let budget = thinking.get("budget_tokens").filter(|budget| !budget.is_null()).cloned();
        chat.insert("thinking_budget_tokens".to_owned(), budget.unwrap_or_else(|| json!(THINKING)));
    }
    Ok(chat)
}

/// The blocks of a system prompt, with nothing between them.
fn system_text(system: &Value) -> Result<String, ApiError> {
    match system {
        Value::String(text) => Ok(billing::settled(text)),
        Value::Array(blocks) => {
            let text = |block: &Value| {
                block["text"].as_str().filter(|_| block["type"] == "text").map(billing::settled)
            };
            Ok(blocks.iter().filter_map(text).collect())
        }
        other => Err(field_error("system", format_args!("must be text or blocks, but is {}", kind(other)))),
    }
}

/// Puts the tools into `chat`, and returns the names of those that the API's own servers would run.
fn tools(body: &Map<String, Value>, chat: &mut Map<String, Value>) -> Vec<String> {
    let mut dropped = Vec::new();
    let mut tools = Vec::new();
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        let (name, schema) = (&tool["name"], tool.get("input_schema").filter(|schema| !schema.is_null()));
        let custom = tool.get("type").is_none_or(|kind| kind.is_null() || kind == "custom");
        if !custom && schema.is_none() {
            dropped.extend(name.as_str().map(str::to_owned));
            continue;
        }
        let mut function = Map::new();
        function.insert("name".to_owned(), name.clone());
        if let Some(description) = tool.get("description").filter(|text| text.is_string()) {
            function.insert("description".to_owned(), description.clone());
        }
        function.insert("parameters".to_owned(), schema.cloned().unwrap_or_else(|| json!({})));
        tools.push(json!({ "type": "function", "function": function }));
    }
    if !tools.is_empty() {
        chat.insert("tools".to_owned(), Value::Array(tools));
    }
    dropped
}

fn tool_choice(body: &Map<String, Value>, dropped: &[String], chat: &mut Map<String, Value>) {
    let Some(choice) = body.get("tool_choice") else { return };
    if choice["disable_parallel_tool_use"].as_bool() == Some(true) {
        chat.insert("parallel_tool_calls".to_owned(), json!(false));
    }
    let name = choice["name"].as_str();
    let choice = match choice["type"].as_str() {
        Some("any") if chat.contains_key("tools") => json!("required"),
        Some("none") => json!("none"),
        Some("tool") if name.is_none_or(|name| !dropped.iter().any(|dropped| dropped == name)) => {
            json!({ "type": "function", "function": { "name": name } })
        }
        _ => json!("auto"),
    };
    chat.insert("tool_choice".to_owned(), choice);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::to_chat;

    fn chat(body: Value) -> Value {
        Value::Object(to_chat(body.as_object().unwrap()).unwrap())
    }

    #[test]
    fn a_plain_request() {
        let body = json!({
            "model": "x", "max_tokens": 9, "system": "Be kind.", "temperature": 0.5, "top_k": 3, "stream": true,
            "stop_sequences": ["END"], "metadata": {"user_id": "u"}, "anything": 1,
            "thinking": {"type": "enabled", "budget_tokens": 50},
            "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}],
        });
        assert_eq!(
            chat(body),
            json!({
                "messages": [
                    {"role": "system", "content": "Be kind."},
                    {"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": "Yo"},
                ],
                "stop": ["END"], "max_tokens": 9, "temperature": 0.5, "top_k": 3, "stream": true,
                "thinking_budget_tokens": 50,
            })
        );
        let short = chat(json!({"messages": [], "thinking": {"type": "adaptive"}}));
        assert_eq!(short, json!({"messages": [], "max_tokens": 4096}));
    }

    #[test]
    fn system_blocks_are_joined_and_the_stamp_is_settled() {
        let system = json!([
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=1a2b3;"},
            {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
            {"type": "image"},
        ]);
        let chat = chat(json!({"messages": [], "system": system}));
        assert_eq!(
            chat["messages"],
            json!([{"role": "system", "content": "x-anthropic-billing-header: cc_version=2; cch=fffff;You are Claude Code."}])
        );
    }

    #[test]
    fn tools_and_choices() {
        let tools = json!([
            {"name": "f", "description": "d", "input_schema": {"type": "object"}, "cache_control": {}},
            {"type": "custom", "name": "g", "input_schema": {"type": "object"}, "defer_loading": true},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
        ]);
        let with = |choice: Value| chat(json!({"messages": [], "tools": tools, "tool_choice": choice}));
        assert_eq!(
            with(json!({"type": "auto"}))["tools"],
            json!([
                {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
                {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}},
            ])
        );
        for (choice, expected) in [
            (json!({"type": "auto"}), json!("auto")),
            (json!({"type": "any"}), json!("required")),
            (json!({"type": "none"}), json!("none")),
            (json!({"type": "tool", "name": "g"}), json!({"type": "function", "function": {"name": "g"}})),
            (json!({"type": "tool", "name": "web_search"}), json!("auto")),
        ] {
            assert_eq!(with(choice)["tool_choice"], expected);
        }
        let single = with(json!({"type": "any", "disable_parallel_tool_use": true}));
        assert_eq!(single["parallel_tool_calls"], false);
        let server_only = chat(json!({"messages": [], "tools": [tools[2]], "tool_choice": {"type": "any"}}));
        assert_eq!((server_only.get("tools"), &server_only["tool_choice"]), (None, &json!("auto")));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for body in [
            json!({}),
            json!({"messages": "x"}),
            json!({"messages": [1]}),
            json!({"messages": [], "system": 1}),
        ] {
            assert!(to_chat(body.as_object().unwrap()).is_err(), "{body}");
        }
    }
}
