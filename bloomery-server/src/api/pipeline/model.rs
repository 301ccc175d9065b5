//! What a chat template says about the model it is for.

use std::sync::Arc;

use bloomery_core::chat::ChatTemplate;
use bloomery_core::tokenizer::{TokenKind, Tokenizer};
use bloomery_core::{Engine, EngineError};
use serde_json::Value;

use crate::api::turn::ChatTurn;
use crate::chat::{Markup, OutputParser, ParserOptions, ReplyStart, ThinkTags};
use crate::error::ApiError;

/// A chat template with what can be told from its text.
#[derive(Debug, Clone)]
pub(crate) struct ChatModel {
    /// Lays conversations out.
    pub(crate) template: ChatTemplate,
    /// How the model writes calls.
    pub(crate) markup: Markup,
    /// The tags around its reasoning.
    pub(crate) think: Option<ThinkTags>,
}

/// The template of files without one, as llama.cpp has it.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + \
                      '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

impl ChatModel {
    /// Of the server's template.
    pub(crate) fn new(
        template: Option<ChatTemplate>,
        engine: &Engine,
    ) -> Result<Arc<ChatModel>, EngineError> {
        let piece = |id: Option<u32>| id.and_then(|id| engine.tokenizer().piece(id)).unwrap_or_default();
        let (bos, eos) = (piece(engine.tokenizer().bos()), piece(engine.tokenizer().eos()));
        let template = template.map_or_else(|| ChatTemplate::new(CHATML, bos, eos), Ok)?;
        let source = |name| template.source(name).unwrap_or_default();
        let text = format!("{}{}", source("tool_use"), source("default"));
        Ok(Arc::new(ChatModel { markup: Markup::detect(&text), think: ThinkTags::detect(&text), template }))
    }

    /// Messages and tools in the form that the template takes.
    pub(crate) fn normalise(&self, turn: &ChatTurn) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
        let tools = turn.tools.list.iter().map(|tool| tool.to_json()).collect();
        let mut messages = turn.messages.clone();
        for message in &mut messages {
            let content = match &message["content"] {
                Value::Array(parts) => {
                    parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
                }
                Value::String(text) => text.clone(),
                _ => String::new(),
            };
            message["content"] = content.into();
        }
        Ok((messages, tools))
    }

    /// Whether a reply may hold several calls.
    pub(crate) fn parallel(&self, turn: &ChatTurn) -> bool {
        turn.tools.parallel.unwrap_or(true)
    }

    /// The id of a text that is one control token.
    pub(crate) fn control(&self, tokenizer: &Tokenizer, text: &str) -> Option<u32> {
        tokenizer.id(text).filter(|id| tokenizer.kind(*id) == Some(TokenKind::Control))
    }

    /// Whether a reply cannot be read without its control tokens.
    pub(crate) fn needs_control(&self, tokenizer: &Tokenizer, turn: &ChatTurn) -> bool {
        let calls = turn.tools.active() || self.markup == Markup::Harmony;
        let markers = if calls { self.markup.markers() } else { Vec::new() };
        let tags = self.think.iter().flat_map(|think| [think.start.as_str(), think.end.as_str()]);
        markers.into_iter().chain(tags).any(|text| self.control(tokenizer, text).is_some())
    }

    /// A parser of one reply.
    pub(crate) fn parser(&self, turn: &ChatTurn, start: &ReplyStart, prefix: &str) -> OutputParser {
        OutputParser::new(ParserOptions {
            markup: self.markup,
            tools: turn.tools.list.clone(),
            choice: turn.tools.choice.clone(),
            parallel: self.parallel(turn),
            reasoning: turn.reasoning.format.for_stream(turn.generation.stream),
            think: self.think.clone(),
            start: start.clone(),
            prefix: prefix.to_owned(),
        })
    }
}
