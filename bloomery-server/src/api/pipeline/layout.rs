//! From a chat request to the text of a prompt.

use bloomery_core::EngineError;
use bloomery_core::chat::{ChatRequest, TemplateError};
use serde_json::Value;

use super::model::ChatModel;
use crate::api::turn::{ChatTurn, Continue};
use crate::chat::{Delta, ReplyStart, ThinkTags};
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
        kwargs: turn.kwargs.clone(),
        allow_empty: true,
        now: None,
    };
    let mut prompt = model.template.render(&request).map_err(template_error)?;
    let think = model.think.as_ref();
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
        (prefix, echo) = continuation(last, continues, &start, think);
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

/// The text of a reply that has begun, and its pieces.
fn continuation(
    message: &Value,
    continues: Continue,
    start: &ReplyStart,
    think: Option<&ThinkTags>,
) -> (String, Vec<Delta>) {
    let content = text(&message["content"]);
    let reasoning = ["reasoning_content", "thinking", "reasoning"];
    let reasoning = reasoning.iter().find_map(|name| message[*name].as_str()).unwrap_or_default();
    let inside = match continues {
        Continue::Auto => content.is_empty() && !reasoning.is_empty(),
        Continue::Content => false,
        Continue::Reasoning => true,
    };
    let piece =
        |delta: fn(String) -> Delta, text: &str| Some(delta(text.to_owned())).filter(|_| !text.is_empty());
    let opened = match start {
        ReplyStart::Thinking { opened } => Some(opened.as_str()),
        _ => None,
    };
    let (text, echo) = match think.filter(|_| *start != ReplyStart::Answering) {
        Some(think) if inside || !reasoning.is_empty() => {
            let open = if opened.is_some() { String::new() } else { format!("{}\n", think.start) };
            let thought = format!("{open}{reasoning}");
            let first = piece(Delta::Reasoning, reasoning);
            if inside {
                (thought, [first, None])
            } else {
                let text = format!("{thought}\n{}\n\n{content}", think.end);
                (text, [first, piece(Delta::Content, &content)])
            }
        }
        Some(think) if opened.is_some() => {
            let close = closing(opened.unwrap_or_default(), think);
            (format!("{close}{content}"), [None, piece(Delta::Content, &content)])
        }
        _ => (content.clone(), [None, piece(Delta::Content, &content)]),
    };
    (text, echo.into_iter().flatten().collect())
}

/// A content as text.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Continue, continuation};
    use crate::chat::{ReplyStart, ThinkTags};

    #[test]
    fn a_reply_goes_on_where_it_stopped() {
        let tags = ThinkTags { start: "<think>".to_owned(), end: "</think>".to_owned() };
        let open = ReplyStart::Thinking { opened: "<think>\n".to_owned() };
        let both = json!({"content": "C", "reasoning_content": "R"});
        let content = json!({"content": [{"type": "text", "text": "C"}]});
        let thought = json!({"content": null, "reasoning": "R"});
        let text = |message: &Value, continues, start: &ReplyStart, tags| {
            continuation(message, continues, start, tags).0
        };
        let tags = Some(&tags);
        for (message, continues, start, expected) in [
            (&both, Continue::Auto, &open, "R\n</think>\n\nC"),
            (&both, Continue::Content, &ReplyStart::Fresh, "<think>\nR\n</think>\n\nC"),
            (&both, Continue::Auto, &ReplyStart::Answering, "C"),
            (&both, Continue::Reasoning, &open, "R"),
            (&content, Continue::Auto, &open, "\n</think>\n\nC"),
            (&content, Continue::Auto, &ReplyStart::Fresh, "C"),
            (&thought, Continue::Auto, &open, "R"),
            (&thought, Continue::Auto, &ReplyStart::Fresh, "<think>\nR"),
        ] {
            assert_eq!(text(message, continues, start, tags), expected, "{message} {continues:?} {start:?}");
        }
        assert_eq!(text(&both, Continue::Auto, &ReplyStart::Fresh, None), "C");
    }
}
