//! The tools of a chat request.

use serde_json::{Map, Value};

use super::lenient_bool;
use crate::api::fields::Fields;
use crate::app::App;
use crate::chat::{Tool, ToolChoice};
use crate::error::ApiError;

/// What the model may call, and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools {
    /// The functions.
    pub(crate) list: Vec<Tool>,
    /// Which of them may or must be called.
    pub(crate) choice: ToolChoice,
    /// Whether several may be called at once; `None` is what the template can do.
    pub(crate) parallel: Option<bool>,
}

impl Tools {
    /// Reads `tools`, `tool_choice` and `parallel_tool_calls`.
    pub(super) fn read(app: &App, body: &Map<String, Value>) -> Result<Tools, ApiError> {
        let fields = Fields(body);
        let list = match fields.get("tools") {
            Some(Value::Array(list)) => list.iter().map(tool).collect::<Result<Vec<Tool>, _>>()?,
            Some(_) => {
                tracing::debug!("'tools' is not an array and was ignored");
                Vec::new()
            }
            None => Vec::new(),
        };
        let choice = choice(fields.get("tool_choice"), &list)?;
        if !app.options.jinja {
            if !list.is_empty() {
                return Err(ApiError::invalid("tools param requires --jinja flag"));
            }
            if fields.get("tool_choice").and_then(Value::as_str).is_some_and(|choice| choice != "auto") {
                return Err(ApiError::invalid("tool_choice param requires --jinja flag"));
            }
        }
        Ok(Tools { list, choice, parallel: lenient_bool(fields, "parallel_tool_calls") })
    }

    /// Whether the answer may hold calls.
    pub(crate) fn active(&self) -> bool {
        !self.list.is_empty() && self.choice != ToolChoice::None
    }
}

fn tool(tool: &Value) -> Result<Tool, ApiError> {
    let kind = &tool["type"];
    if !kind.is_null() && kind != "function" {
        return Err(ApiError::invalid(format!("Failed to parse tools: unsupported tool type {kind}")));
    }
    let Some(function) = tool["function"].as_object() else {
        return Err(ApiError::invalid(format!("Failed to parse tools: missing tool function: {tool}")));
    };
    let Some(name) = function.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
        return Err(ApiError::invalid(format!("Failed to parse tools: a function has no name: {tool}")));
    };
    Ok(Tool {
        name: name.to_owned(),
        description: function.get("description").and_then(Value::as_str).map(str::to_owned),
        parameters: function.get("parameters").cloned().unwrap_or_default(),
    })
}

fn choice(choice: Option<&Value>, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    let text = match choice {
        None => return Ok(ToolChoice::Auto),
        Some(Value::String(text)) => text,
        Some(Value::Object(fields)) => return named(fields, tools),
        Some(_) => {
            tracing::debug!("'tool_choice' is neither a string nor an object and was ignored");
            return Ok(ToolChoice::Auto);
        }
    };
    match text.as_str() {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        // Without tools there is nothing that could be required.
        "required" if tools.is_empty() => Ok(ToolChoice::Auto),
        "required" => Ok(ToolChoice::Required),
        other => Err(ApiError::invalid(format!("Invalid tool_choice: {other}"))),
    }
}

/// `{"type": "function", "function": {"name"}}`, or `{"type": "allowed_tools", "allowed_tools": {"mode"}}`.
fn named(fields: &Map<String, Value>, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    match fields.get("type").and_then(Value::as_str) {
        Some("function") => {
            let name =
                fields.get("function").and_then(|function| function["name"].as_str()).unwrap_or_default();
            if tools.iter().any(|tool| tool.name == name) {
                Ok(ToolChoice::Named(name.to_owned()))
            } else {
                Err(ApiError::invalid(format!("Invalid tool_choice: there is no tool '{name}' in 'tools'")))
            }
        }
        Some("allowed_tools") => choice(fields.get("allowed_tools").map(|allowed| &allowed["mode"]), tools),
        _ => Ok(ToolChoice::Auto),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{choice, tool};
    use crate::chat::ToolChoice;

    #[test]
    fn tools_need_a_function_with_a_name() {
        for bad in [
            json!({"type": "function"}),
            json!({"function": {}}),
            json!({"function": {"name": ""}}),
            json!({"type": "custom", "function": {"name": "f"}}),
            json!(1),
        ] {
            assert!(tool(&bad).is_err(), "{bad}");
        }
        let good = tool(&json!({"function": {"name": "f", "parameters": {"type": "object"}}})).unwrap();
        assert_eq!((good.name.as_str(), &good.parameters), ("f", &json!({"type": "object"})));
    }

    #[test]
    fn choices_are_read() {
        let tools = [tool(&json!({"type": "function", "function": {"name": "f"}})).unwrap()];
        let named = |name: &str| json!({"type": "function", "function": {"name": name}});
        let allowed = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}});
        for (value, expected) in [
            (json!("auto"), ToolChoice::Auto),
            (json!("none"), ToolChoice::None),
            (json!("required"), ToolChoice::Required),
            (named("f"), ToolChoice::Named("f".to_owned())),
            (allowed, ToolChoice::Required),
            (json!(5), ToolChoice::Auto),
            (json!({}), ToolChoice::Auto),
        ] {
            assert_eq!(choice(Some(&value), &tools).unwrap(), expected, "{value}");
        }
        assert_eq!(choice(Some(&json!("required")), &[]).unwrap(), ToolChoice::Auto);
        assert_eq!(
            choice(Some(&json!("sometimes")), &tools).unwrap_err().message,
            "Invalid tool_choice: sometimes"
        );
        assert!(choice(Some(&named("g")), &tools).is_err());
    }
}
