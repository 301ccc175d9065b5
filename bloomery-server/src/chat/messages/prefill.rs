//! A reply whose beginning the client gives: the last message is the assistant's.

use serde_json::Value;

use super::super::markup::Markup;
use super::super::think::{ReplyStart, ThinkTags};
use super::content;
use super::error::MessageError;

/// The beginning of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefill {
    /// Its reasoning.
    pub reasoning: String,
    /// Its content. None: the reasoning itself goes on.
    pub content: Option<String>,
}

/// Takes the last message off where it is the assistant's.
///
/// # Errors
/// [`MessageError`] where the one before is the assistant's too, or it has calls, or a content that is none.
pub fn split_prefill(messages: &[Value]) -> Result<(&[Value], Option<Prefill>), MessageError> {
    let from_assistant = |message: &Value| message["role"] == "assistant";
    let Some((last, rest)) = messages.split_last().filter(|(last, _)| from_assistant(last)) else {
        return Ok((messages, None));
    };
    if rest.last().is_some_and(from_assistant) {
        return Err(MessageError::TwoAtTheEnd);
    }
    if last["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty()) {
        return Err(MessageError::ContinuesCalls);
    }
    if last.get("content").is_none() {
        return Err(MessageError::Empty { index: rest.len() });
    }
    let content = content::texts(last.get("content"), rest.len())?.unwrap_or_default().join("\n");
    let reasoning =
        super::REASONING.iter().find_map(|name| last[*name].as_str()).unwrap_or_default().to_owned();
    let content = Some(content).filter(|text| !text.is_empty() || reasoning.is_empty());
    Ok((rest, Some(Prefill { reasoning, content })))
}

impl Prefill {
    /// What goes behind a prompt that ends with the head of the assistant's message. It is the parser's
    /// [`prefix`](super::super::ParserOptions::prefix) too.
    pub fn text(&self, start: &ReplyStart, markup: Markup, think: Option<&ThinkTags>) -> String {
        let content = self.content.as_deref();
        if markup == Markup::Harmony {
            return self.harmony(content);
        }
        let Some(think) = think else { return content.unwrap_or(&self.reasoning).to_owned() };
        let opens = match start {
            ReplyStart::Thinking { .. } => "",
            ReplyStart::Fresh if !self.reasoning.is_empty() => &format!("{}\n", think.start),
            _ => return content.unwrap_or_default().to_owned(),
        };
        match content {
            Some(content) => format!("{opens}{}\n{}\n\n{content}", self.reasoning, think.end),
            None => format!("{opens}{}", self.reasoning),
        }
    }

    fn harmony(&self, content: Option<&str>) -> String {
        let analysis = format!("<|channel|>analysis<|message|>{}", self.reasoning);
        match content {
            None => analysis,
            Some(content) if self.reasoning.is_empty() => format!("<|channel|>final<|message|>{content}"),
            Some(content) => {
                format!("{analysis}<|end|><|start|>assistant<|channel|>final<|message|>{content}")
            }
        }
    }
}
