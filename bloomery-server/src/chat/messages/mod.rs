//! The messages of a request, as its template takes them.

mod calls;
mod caps;
mod content;
mod error;
mod system;

use serde_json::{Map, Value, json};

use super::prompt;
use super::tool::Tool;
pub use caps::TemplateCaps;
pub use error::MessageError;

/// Under these names clients send the reasoning of earlier messages; the first one present wins.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Lays messages of the OpenAI API out for a template.
///
/// - `developer` becomes `system` where the template does not know it.
/// - Contents become texts or parts, whichever the template takes; parts are joined with line ends.
/// - Arguments of calls become objects or texts; ids that are null are left out; results come in the order of the
///   calls.
/// - `reasoning` and `thinking` become `reasoning_content`.
/// - System messages that the template refuses are merged into the first one, or become messages of the user.
/// - `tools` that the template does not show are described in the system message, and calls it does not show are
///   written into the content.
///
/// # Errors
/// [`MessageError`] for what is no message, with its place in the list.
pub fn normalise(
    messages: &[Value],
    tools: &[Tool],
    caps: &TemplateCaps,
) -> Result<Vec<Value>, MessageError> {
    let mut out = Vec::with_capacity(messages.len() + 1);
    for (index, message) in messages.iter().enumerate() {
        out.push(normalised(message, index, caps)?);
    }
    calls::order_results(&mut out);
    if !caps.tools && !tools.is_empty() {
        let text = prompt::describe(caps.markup, tools);
        match out.first_mut().filter(|message| message["role"] == "system") {
            Some(first) => system::append(first, &text, "\n\n"),
            None => out.insert(0, json!({ "role": "system", "content": laid_out(text, caps) })),
        }
    }
    system::settle(&mut out, caps);
    Ok(out)
}

/// The tools of a request for the template's variable `tools`.
pub fn template_tools(tools: &[Tool], caps: &TemplateCaps) -> Vec<Value> {
    let described = |tool: &Tool| {
        let mut tool = tool.to_json();
        if caps.tool_description && tool["function"].get("description").is_none() {
            tool["function"]["description"] = json!("");
        }
        tool
    };
    tools.iter().map(described).collect()
}

fn laid_out(text: String, caps: &TemplateCaps) -> Value {
    content::laid_out(&[text], false, caps)
}

fn normalised(message: &Value, index: usize, caps: &TemplateCaps) -> Result<Value, MessageError> {
    let Value::Object(fields) = message else {
        return Err(MessageError::NotObject { index, found: json_type(message) });
    };
    let role = fields.get("role").and_then(Value::as_str).ok_or(MessageError::Role { index })?;
    let given = fields.get("content");
    let called = match fields.get("tool_calls") {
        Some(Value::Array(calls)) if !calls.is_empty() && role == "assistant" => {
            Some(calls::normalised(calls, index, caps)?)
        }
        _ => None,
    };
    if given.is_none() && role != "assistant" {
        return Err(MessageError::NoContent { index, role: role.to_owned() });
    }
    if given.is_none() && called.is_none() {
        return Err(MessageError::Empty { index });
    }
    let mut texts = content::texts(given, index)?;
    let mut out = Map::new();
    let plain = !caps.tool_calls;
    let role = match role {
        "developer" if !caps.developer => "system",
        // Where calls are written as text, their results are told by the user.
        "tool" if plain && (!caps.tool_results || prompt::in_text(caps.markup)) => {
            let text = texts.unwrap_or_default().join("\n");
            texts = Some(vec![format!("<tool_response>\n{text}\n</tool_response>")]);
            "user"
        }
        "function" => "tool",
        role => role,
    };
    out.insert("role".to_owned(), json!(role));
    let reasoning = REASONING.iter().find_map(|name| fields.get(*name).and_then(Value::as_str));
    if let Some(reasoning) = reasoning.filter(|text| !text.is_empty() && role == "assistant") {
        out.insert("reasoning_content".to_owned(), json!(reasoning));
    }
    let mut called = called;
    if let Some(calls) = called.take_if(|_| plain) {
        let text = texts.take().unwrap_or_default().join("\n");
        let gap = if text.is_empty() { "" } else { "\n" };
        texts = Some(vec![format!("{text}{gap}{}", calls::written(&calls, caps))]);
    }
    let said = texts.as_ref().is_some_and(|texts| texts.iter().any(|text| !text.is_empty()));
    let clash = called.is_some() && out.contains_key("reasoning_content") && !caps.content_and_reasoning;
    let needless = called.is_some() && caps.absent_content && !said;
    if !needless && !clash {
        let texts = texts.unwrap_or_else(|| vec![String::new()]);
        out.insert("content".to_owned(), content::laid_out(&texts, given.is_some_and(Value::is_array), caps));
    }
    if let Some(calls) = called {
        out.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    for (name, value) in fields {
        match name.as_str() {
            "tool_call_id" if role == "tool" => {
                if let Some(id) = value.as_str() {
                    out.insert(name.clone(), json!(calls::id(id, caps)));
                }
            }
            "role" | "content" | "tool_calls" | "tool_call_id" => {}
            name if REASONING.contains(&name) || value.is_null() => {}
            name => {
                out.insert(name.to_owned(), value.clone());
            }
        }
    }
    Ok(Value::Object(out))
}

/// What a value is called in errors.
fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
