//! Calls in the history, and the results they had.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Map, Value, json};

use super::super::write::{Call, spaced};
use super::caps::TemplateCaps;
use super::error::MessageError;

/// The calls of a message, as the template wants them.
pub(super) fn normalised(
    calls: &[Value],
    index: usize,
    caps: &TemplateCaps,
) -> Result<Vec<Value>, MessageError> {
    let checked = calls.iter().enumerate().map(|(at, call)| {
        let wrong = |what| MessageError::Call { index, call: at, what };
        if call.get("type").is_some_and(|kind| !kind.is_null() && kind != "function") {
            return Err(wrong("'type' must be \"function\""));
        }
        let function = call.get("function").and_then(Value::as_object);
        let function = function.ok_or_else(|| wrong("'function' is required"))?;
        let name = function
            .get("name")
            .and_then(Value::as_str)
            .ok_or_else(|| wrong("'function.name' is required"))?;
        let arguments = arguments(function.get("arguments"), caps);
        let mut out = Map::new();
        let given = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned);
        let needed = caps.short_ids.then(|| format!("{index} {at}"));
        if let Some(id) = given.or(needed) {
            out.insert("id".to_owned(), json!(self::id(&id, caps)));
        }
        out.insert("type".to_owned(), json!("function"));
        out.insert("function".to_owned(), json!({ "name": name, "arguments": arguments }));
        Ok(Value::Object(out))
    });
    checked.collect()
}

fn arguments(given: Option<&Value>, caps: &TemplateCaps) -> Value {
    match given {
        None | Some(Value::Null) if caps.object_arguments => json!({}),
        None | Some(Value::Null) => json!("{}"),
        Some(Value::String(text)) if caps.object_arguments => object(text),
        Some(Value::String(text)) => json!(text),
        Some(value) if caps.object_arguments => value.clone(),
        Some(value) => json!(spaced(value)),
    }
}

/// Arguments that came as a text. One that is no object is kept under a key, so that an old mistake of a model does not
/// end a conversation.
fn object(text: &str) -> Value {
    if text.trim().is_empty() {
        return json!({});
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        _ => json!({ "arguments": text }),
    }
}

/// An id that the template takes. Equal ids stay equal.
pub(super) fn id(id: &str, caps: &TemplateCaps) -> String {
    let fits = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !caps.short_ids || fits {
        return id.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    format!("{:09}", hasher.finish() % 1_000_000_000)
}

/// Calls in the model's own markup, for templates that cannot lay them out.
pub(super) fn written(calls: &[Value], caps: &TemplateCaps) -> String {
    let calls: Vec<Call> = calls
        .iter()
        .map(|call| {
            let function = &call["function"];
            let arguments = match &function["arguments"] {
                Value::Object(fields) => Value::Object(fields.clone()),
                Value::String(text) => object(text),
                other => json!({ "arguments": other }),
            };
            let arguments = arguments.as_object().cloned().unwrap_or_default();
            Call { name: function["name"].as_str().unwrap_or_default().to_owned(), arguments }
        })
        .collect();
    caps.markup.write(&calls)
}

/// Puts the results of each message's calls into the order of the calls, where every result names another call of it.
///
/// Models are trained on that order; templates that look for it themselves take a time that grows with the square of
/// the number of calls.
pub(super) fn order_results(messages: &mut [Value]) {
    let mut start = 0;
    while start < messages.len() {
        let calls = ids(&messages[start]);
        let results = messages[start + 1..].iter().take_while(|message| message["role"] == "tool").count();
        if results > 1 && !calls.is_empty() {
            let run = &mut messages[start + 1..=start + results];
            let place = |message: &Value| {
                let id = message["tool_call_id"].as_str()?;
                calls.iter().position(|call| call == id)
            };
            let mut places: Vec<Option<usize>> = run.iter().map(place).collect();
            places.sort_unstable();
            places.dedup();
            if places.len() == results && places.iter().all(Option::is_some) {
                run.sort_by_key(place);
            }
        }
        start += results + 1;
    }
}

fn ids(message: &Value) -> Vec<String> {
    let calls = message.get("tool_calls").and_then(Value::as_array);
    let ids = calls.into_iter().flatten().filter_map(|call| call["id"].as_str());
    ids.map(str::to_owned).collect()
}
