//! From a chat request to the text of a prompt.

use bloomery_core::EngineError;
use bloomery_core::chat::{ChatRequest, TemplateError};
use serde_json::Value;

use super::model::ChatModel;
use crate::api::turn::{ChatTurn, Continue};
use crate::chat::{Delta, Prefill, ReplyStart, ThinkTags};
use crate::error::ApiError;

/// A prompt, and what it says about the reply.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The whole prompt.
    pub(crate) prompt: String,
    /// How the reply begins, its part in the prompt included.
    pub(crate) start: ReplyStart,
    /// The part of the reply that stands in the prompt already.
    pub(crate) prefix: String,
    /// The same as pieces of a reply, for those who want it back.
    pub(crate) echo: Vec<Delta>,
}

/// Lays a conversation out. Takes as long as the template does.
pub(crate) fn lay_out(model: &ChatModel, turn: &ChatTurn) -> Result<Layout, ApiError> {
    let (mut messages, tools) = model.normalise(turn)?;
    let last = turn.continues.and_then(|_| messages.pop());
    let request = ChatRequest {
        messages,
        tools,
        add_generation_prompt: turn.add_generation_prompt || turn.continues.is_some(),
        kwargs: model.variables(turn),
        allow_empty: true,
        now: None,
    };
    let mut prompt = model.template.render(&request).map_err(template_error)?;
    let think = model.caps.think.as_ref();
    let mut start = ReplyStart::of(&prompt, think);
    if turn.reasoning.enabled == Some(false)
        && let (ReplyStart::Thinking { opened }, Some(think)) = (&start, think)
    {
        // Templates of models that always think have no switch.
        prompt.push_str(&closing(opened, think));
        start = ReplyStart::Answering;
    }
    let (mut prefix, mut echo) = (String::new(), Vec::new());
    if let (Some(last), Some(continues)) = (&last, turn.continues) {
        let begun = begun(last, continues);
        prefix = begun.text(model.caps.markup, &start, think);
        echo = pieces(begun);
        prompt.push_str(&prefix);
    }
    Ok(Layout { prompt, start, prefix, echo })
}

/// What the template says counts more than where it says it.
fn template_error(error: TemplateError) -> ApiError {
    match error {
        TemplateError::Raised { message, .. } => ApiError::invalid(message),
        other => ApiError::from(EngineError::from(other)),
    }
}

/// Ends reasoning that was just opened, in the form that models which can leave it out were trained on.
fn closing(opened: &str, think: &ThinkTags) -> String {
    if opened.ends_with('\n') { format!("\n{}\n\n", think.end) } else { think.end.clone() }
}

/// The part of the last message that a reply goes on with.
fn begun(message: &Value, continues: Continue) -> Prefill {
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    };
    let reasoning = message["reasoning_content"].as_str().unwrap_or_default().to_owned();
    let content = Some(text(&message["content"])).filter(|content| match continues {
        Continue::Auto => !content.is_empty() || reasoning.is_empty(),
        Continue::Content => true,
        Continue::Reasoning => false,
    });
    Prefill { reasoning, content }
}

/// What was begun as pieces of a reply.
fn pieces(begun: Prefill) -> Vec<Delta> {
    let reasoning = Some(begun.reasoning).filter(|text| !text.is_empty()).map(Delta::Reasoning);
    let content = begun.content.filter(|text| !text.is_empty()).map(Delta::Content);
    reasoning.into_iter().chain(content).collect()
}
