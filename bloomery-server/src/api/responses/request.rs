//! A body of `/v1/responses` as one of `/v1/chat/completions`.

use serde_json::{Map, Value, json};

use super::items;
use crate::error::ApiError;

/// Fields that mean something else in the chat API, or that a response has no place for.
const OTHER: [&str; 6] = ["input", "instructions", "n", "n_cmpl", "logprobs", "top_logprobs"];

/// The chat request that asks for the same. Fields that are not known stay, for the generation's own are among them.
pub(super) fn to_chat(body: &Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    let input = body.get("input").ok_or_else(|| ApiError::invalid("'input' is required"))?;
    if body.get("previous_response_id").is_some_and(|id| id.as_str() != Some("")) {
        return Err(ApiError::invalid(
            "'previous_response_id' is not supported: responses are not stored, send the whole conversation",
        ));
    }
    let mut chat = body.clone();
    chat.retain(|name, _| !OTHER.contains(&name.as_str()));
    let mut messages = Vec::new();
    if let Some(instructions) =
        body.get("instructions").and_then(Value::as_str).filter(|text| !text.is_empty())
    {
        messages.push(json!({ "role": "system", "content": instructions }));
    }
    match input {
        Value::String(text) => messages.push(json!({ "role": "user", "content": text })),
        Value::Array(list) => {
            for item in list {
                items::item(item, &mut messages)?;
            }
        }
        _ => return Err(ApiError::invalid("'input' must be a string or array of objects")),
    }
    chat.insert("messages".to_owned(), Value::Array(messages));
    tools(&mut chat)?;
    tool_choice(&mut chat);
    if let Some(budget) = chat.remove("max_output_tokens") {
        chat.insert("max_tokens".to_owned(), budget);
    }
    if let Some(effort) =
        chat.remove("reasoning").and_then(|mut reasoning| reasoning.as_object_mut()?.remove("effort"))
    {
        chat.insert("reasoning_effort".to_owned(), effort);
    }
    if let Some(format) = chat.remove("text").and_then(|mut text| text.as_object_mut()?.remove("format")) {
        chat.insert("response_format".to_owned(), response_format(format));
    }
    chat.retain(|_, value| !value.is_null());
    Ok(chat)
}

/// Functions in the chat API's form. Tools of other types have no equal there.
fn tools(chat: &mut Map<String, Value>) -> Result<(), ApiError> {
    let Some(tools) = chat.remove("tools") else { return Ok(()) };
    let Value::Array(tools) = tools else {
        return Err(ApiError::invalid("'tools' must be an array of objects"));
    };
    let mut functions = Vec::new();
    for tool in tools {
        if tool["type"] != "function" {
            tracing::warn!(kind = tool["type"].as_str(), "a tool that is not a function was left out");
        } else if tool["function"].is_object() {
            functions.push(tool);
        } else if let Value::Object(mut function) = tool {
            function.remove("type");
            functions.push(json!({ "type": "function", "function": function }));
        }
    }
    if !functions.is_empty() {
        chat.insert("tools".to_owned(), Value::Array(functions));
    }
    Ok(())
}

fn tool_choice(chat: &mut Map<String, Value>) {
    let Some(choice) = chat.remove("tool_choice") else { return };
    let choice = match choice["type"].as_str() {
        Some("function") => match choice["name"].as_str() {
            Some(name) => json!({ "type": "function", "function": { "name": name } }),
            None => choice,
        },
        Some("allowed_tools") => choice["mode"].clone(),
        // Tools that were left out cannot be asked for.
        Some(_) => json!("auto"),
        None => choice,
    };
    if choice != "required" || chat.contains_key("tools") {
        chat.insert("tool_choice".to_owned(), choice);
    }
}

/// `text.format`, whose schema lies flat.
fn response_format(format: Value) -> Value {
    match format {
        Value::Object(mut fields) if fields.get("type").is_some_and(|kind| kind == "json_schema") => {
            fields.remove("type");
            json!({ "type": "json_schema", "json_schema": fields })
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::to_chat;

    fn chat(body: Value) -> Value {
        Value::Object(to_chat(body.as_object().unwrap()).unwrap())
    }

    #[test]
    fn a_request_of_an_agent() {
        let body = json!({
            "model": "m", "instructions": "Be brief.", "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
            "tools": [
                {"type": "function", "name": "shell", "description": "d", "strict": false, "parameters": {"type": "object"}},
                {"type": "web_search"}, {"type": "custom", "name": "apply_patch"}, {"type": "namespace", "name": "n", "tools": []},
                {"type": "local_shell"},
            ],
            "tool_choice": "auto", "parallel_tool_calls": false, "reasoning": {"effort": "low", "summary": "auto"},
            "store": false, "stream": true, "include": [], "prompt_cache_key": "k", "max_output_tokens": 5,
            "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "strict": true, "schema": {"type": "object"}}},
            "top_logprobs": 0,
        });
        assert_eq!(
            chat(body),
            json!({
                "model": "m",
                "parallel_tool_calls": false, "store": false, "stream": true, "include": [], "prompt_cache_key": "k",
                "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
                "tools": [{"type": "function", "function": {"name": "shell", "description": "d", "strict": false, "parameters": {"type": "object"}}}],
                "tool_choice": "auto",
                "max_tokens": 5,
                "reasoning_effort": "low",
                "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"type": "object"}}},
            })
        );
    }

    #[test]
    fn choices_of_tools() {
        let with = |choice: Value| {
            let body =
                json!({"input": "x", "tools": [{"type": "function", "name": "f"}], "tool_choice": choice});
            chat(body)["tool_choice"].clone()
        };
        assert_eq!(with(json!("required")), "required");
        assert_eq!(
            with(json!({"type": "function", "name": "f"})),
            json!({"type": "function", "function": {"name": "f"}})
        );
        assert_eq!(with(json!({"type": "web_search"})), "auto");
        assert_eq!(with(json!({"type": "allowed_tools", "mode": "required", "tools": []})), "required");
        let none = chat(json!({"input": "x", "tools": [{"type": "web_search"}], "tool_choice": "required"}));
        assert_eq!((none.get("tools"), none.get("tool_choice")), (None, None));
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        let fails = |body: Value| to_chat(body.as_object().unwrap()).unwrap_err().message;
        assert_eq!(fails(json!({})), "'input' is required");
        assert!(
            fails(json!({"input": "x", "previous_response_id": "resp_1"})).contains("previous_response_id")
        );
        assert!(fails(json!({"input": 1})).contains("'input' must be"));
        assert!(fails(json!({"input": "x", "tools": {}})).contains("'tools'"));
        chat(json!({"input": [], "previous_response_id": "", "max_output_tokens": 1}));
    }
}
