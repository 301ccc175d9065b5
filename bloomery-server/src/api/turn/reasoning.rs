//! How a model thinks, and where its thinking goes.

use serde_json::{Map, Value, json};

use crate::api::fields::{Fields, field_error, kind};
use crate::app::App;
use crate::chat::ReasoningFormat;
use crate::error::ApiError;

/// The names of the budget; the first one present counts.
const BUDGET: [&str; 3] = ["reasoning_budget_tokens", "thinking_budget_tokens", "reasoning_budget"];

/// The variable that says whether to think.
const SWITCH: &str = "enable_thinking";

/// What a request says about thinking.
#[derive(Debug, Clone)]
pub(crate) struct Reasoning {
    /// Where the thinking goes.
    pub(crate) format: ReasoningFormat,
    /// Whether to think; `None` is what the template does.
    pub(crate) enabled: Option<bool>,
    /// Most tokens of thinking.
    pub(crate) budget: Option<usize>,
    /// What is written before the closing tag when the budget is used up.
    pub(crate) message: Option<String>,
    /// How hard to think, in the template's words.
    effort: Option<String>,
}

impl Reasoning {
    pub(super) fn read(app: &App, fields: Fields<'_>) -> Result<Reasoning, ApiError> {
        let options = &app.options;
        let name = fields.string("reasoning_format")?.unwrap_or(&options.reasoning_format);
        let format = ReasoningFormat::from_name(name).ok_or_else(|| {
            field_error(
                "reasoning_format",
                format_args!("must be none, auto, deepseek or deepseek-legacy, but is {name}"),
            )
        })?;
        let started = options.reasoning.or_else(|| (options.reasoning_budget == Some(0)).then_some(false));
        let mut enabled = enable_thinking(app, fields)?.or(started);
        let mut effort = options.reasoning_effort.clone();
        if let Some(Value::String(own)) = fields.get("reasoning_effort") {
            match own.as_str() {
                "" => {}
                "none" => (enabled, effort) = (Some(false), None),
                own => effort = Some(own.to_owned()),
            }
        }
        let message = fields.get("reasoning_budget_message").and_then(Value::as_str).map(str::to_owned);
        let message = message.or_else(|| options.reasoning_budget_message.clone());
        let budget = budget(fields)?.or(options.reasoning_budget);
        Ok(Reasoning { format, enabled, budget, message, effort })
    }
}

/// The switch among the template's variables. A string would be true in a template, whatever it says.
fn enable_thinking(app: &App, fields: Fields<'_>) -> Result<Option<bool>, ApiError> {
    let own = fields.get("chat_template_kwargs").and_then(|kwargs| kwargs.get(SWITCH));
    match own.or_else(|| app.options.template_kwargs.get(SWITCH)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(enabled)) => Ok(Some(*enabled)),
        Some(other) => Err(ApiError::invalid(format!(
            "invalid type for \"enable_thinking\" (expected boolean, got {})",
            kind(other)
        ))),
    }
}

/// -1 is what the server was started with.
fn budget(fields: Fields<'_>) -> Result<Option<usize>, ApiError> {
    let Some(name) = fields.first(&BUDGET) else { return Ok(None) };
    Ok(fields.integer(name, -1..=i64::from(i32::MAX))?.and_then(|budget| usize::try_from(budget).ok()))
}

/// The variables of the template: the request's over the server's.
pub(super) fn kwargs(
    app: &App,
    fields: Fields<'_>,
    reasoning: &Reasoning,
) -> Result<Map<String, Value>, ApiError> {
    let mut kwargs = app.options.template_kwargs.clone();
    match fields.get("chat_template_kwargs") {
        Some(Value::Object(own)) => kwargs.extend(own.clone()),
        Some(_) => tracing::debug!("'chat_template_kwargs' is not an object and was ignored"),
        None => {}
    }
    if let Some(enabled) = reasoning.enabled {
        kwargs.insert(SWITCH.to_owned(), json!(enabled));
    }
    match &reasoning.effort {
        Some(effort) => drop(kwargs.insert("reasoning_effort".to_owned(), json!(effort))),
        None if reasoning.enabled == Some(false) => drop(kwargs.remove("reasoning_effort")),
        None => {}
    }
    Ok(kwargs)
}
