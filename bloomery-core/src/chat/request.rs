//! A conversation to lay out, and the clean-up it gets before a template sees it.

use jiff::civil::DateTime;
use minijinja::Value;
use serde_json::{Map, Value as Json};

use super::{error::TemplateError, value};

/// One conversation, as the OpenAI chat API writes it.
#[derive(Debug, Clone, Default)]
pub struct ChatRequest {
    /// The messages, oldest first: objects with `role`, `content` and whatever else the template reads.
    pub messages: Vec<Json>,
    /// Function schemas. Empty means that no tools are offered (`tools` is none in the template).
    pub tools: Vec<Json>,
    /// Ends the prompt with the header of an assistant message.
    pub add_generation_prompt: bool,
    /// Further variables of the template, such as `enable_thinking` or `documents`. They win over the built-in ones.
    pub kwargs: Map<String, Json>,
    /// Lays out a conversation without messages too, instead of refusing it.
    pub allow_empty: bool,
    /// What `strftime_now` takes for the current time. None: the system clock in the local time zone.
    pub now: Option<DateTime>,
}

/// The names under which reasoning is passed; the first one present wins.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// The messages as the template sees them: keys with null removed, reasoning under the names templates read.
pub(super) fn messages(request: &ChatRequest) -> Result<Value, TemplateError> {
    if request.messages.is_empty() && !request.allow_empty {
        return Err(TemplateError::NoMessages);
    }
    let messages = request.messages.iter().enumerate().map(|(index, message)| match message {
        Json::Object(fields) => value::object(normalized(fields), "messages"),
        other => Err(TemplateError::MessageNotObject { index, found: json_type(other) }),
    });
    Ok(Value::from(messages.collect::<Result<Vec<Value>, TemplateError>>()?))
}

/// The tools as the template sees them.
pub(super) fn tools(request: &ChatRequest) -> Result<Value, TemplateError> {
    if request.tools.is_empty() {
        return Ok(Value::from(()));
    }
    let tools = request.tools.iter().map(|tool| value::from_json(tool, "tools"));
    Ok(Value::from(tools.collect::<Result<Vec<Value>, TemplateError>>()?))
}

/// `thinking` comes first, and `reasoning_content` last where it is added: the order in which transformers shows them
/// to templates that print a whole message.
fn normalized(message: &Map<String, Json>) -> Vec<(&str, &Json)> {
    let mut fields: Vec<(&str, &Json)> = message
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.as_str(), value))
        .collect();
    let reasoning = REASONING.iter().find_map(|name| message.get(*name).filter(|value| !value.is_null()));
    let Some(reasoning) = reasoning else { return fields };
    let thinking = match fields.iter().position(|(key, _)| *key == "thinking") {
        Some(at) => fields.remove(at).1,
        None => reasoning,
    };
    fields.insert(0, ("thinking", thinking));
    match fields.iter_mut().find(|(key, _)| *key == "reasoning_content") {
        Some(field) => field.1 = reasoning,
        None => fields.push(("reasoning_content", reasoning)),
    }
    fields
}

fn json_type(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}
