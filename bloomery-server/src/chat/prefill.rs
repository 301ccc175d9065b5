//! A reply whose beginning the client gives.

use super::markup::Markup;
use super::think::{ReplyStart, ThinkTags};

/// The beginning of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefill {
    /// Its reasoning.
    pub reasoning: String,
    /// Its content. None: the reasoning itself goes on.
    pub content: Option<String>,
}

impl Prefill {
    /// What goes behind a prompt that ends with the head of the assistant's message. `start` is how the reply begins
    /// after that prompt. The text is the parser's [`prefix`](super::ParserOptions::prefix) too.
    pub fn text(&self, markup: Markup, start: &ReplyStart, think: Option<&ThinkTags>) -> String {
        let (reasoning, content) = (self.reasoning.as_str(), self.content.as_deref());
        if markup == Markup::Harmony {
            return self.harmony(content);
        }
        let Some(think) = think else { return content.unwrap_or(reasoning).to_owned() };
        let opens = match start {
            ReplyStart::Thinking { .. } => String::new(),
            ReplyStart::Fresh if !reasoning.is_empty() => format!("{}\n", think.start),
            _ => return content.unwrap_or_default().to_owned(),
        };
        let line = if reasoning.is_empty() { "" } else { "\n" };
        match content {
            Some(content) => format!("{opens}{reasoning}{line}{}\n\n{content}", think.end),
            None => format!("{opens}{reasoning}"),
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
