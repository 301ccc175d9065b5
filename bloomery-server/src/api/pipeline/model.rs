//! What a chat template says about the model it is for.

use std::sync::Arc;

use bloomery_core::chat::ChatTemplate;
use bloomery_core::tokenizer::{TokenKind, Tokenizer};
use bloomery_core::{Engine, EngineError};
use serde_json::{Map, Value, json};

use crate::api::turn::ChatTurn;
use crate::chat::{
    Markup, MessageError, OutputParser, ParserOptions, ReplyStart, TemplateCaps, ToolChoice, normalise,
    template_tools,
};
use crate::error::{ApiError, ErrorKind};

/// Today, under the names and in the forms that templates of Llama 3 and of its children read. llama-server sets the same.
const DATES: [(&str, &str); 2] = [("date_string", "%d %b %Y"), ("datetime", "%b %d %Y")];

/// A chat template, and what it can lay out.
#[derive(Debug, Clone)]
pub(crate) struct ChatModel {
    /// Lays conversations out.
    pub(crate) template: ChatTemplate,
    /// How the model writes calls and reasoning, and what the template takes.
    pub(crate) caps: TemplateCaps,
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
        let caps = TemplateCaps::detect(&template);
        Ok(Arc::new(ChatModel { template, caps }))
    }

    /// Messages and tools in the form that the template takes.
    pub(super) fn normalise(&self, turn: &ChatTurn) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
        // A template that knows tools shows them also where they may not be called. Nothing else has to.
        let tools = if self.caps.tools || turn.tools.active() { turn.tools.list.as_slice() } else { &[] };
        let messages = normalise(&turn.messages, tools, &self.caps).map_err(message_error)?;
        Ok((messages, template_tools(tools, &self.caps)))
    }

    /// The template's variables, with its own names for the switch of thinking. It is on where nobody says otherwise.
    pub(super) fn variables(&self, turn: &ChatTurn) -> Map<String, Value> {
        let mut variables = turn.kwargs.clone();
        let enabled = turn.reasoning.enabled.unwrap_or(true);
        for switch in &self.caps.thinking_switches {
            variables.entry(*switch).or_insert(json!(enabled));
        }
        let today = jiff::ZonedDateTime::now();
        for (name, format) in DATES {
            variables.entry(name).or_insert_with(|| json!(today.strftime(format).to_string()));
        }
        variables
    }

    /// Whether a reply may hold several calls. Who names a function wants it called once.
    pub(super) fn parallel(&self, turn: &ChatTurn) -> bool {
        let named = matches!(turn.tools.choice, ToolChoice::Named(_));
        !named && turn.tools.parallel.unwrap_or(self.caps.parallel_calls)
    }

    /// The id of a text that is one control token.
    pub(super) fn control(&self, tokenizer: &Tokenizer, text: &str) -> Option<u32> {
        tokenizer.id(text).filter(|id| tokenizer.kind(*id) == Some(TokenKind::Control))
    }

    /// Whether a reply cannot be read without its control tokens.
    pub(super) fn needs_control(&self, tokenizer: &Tokenizer, turn: &ChatTurn) -> bool {
        let calls = turn.tools.active() || self.caps.markup == Markup::Harmony;
        let markers = if calls { self.caps.markup.markers() } else { Vec::new() };
        let tags = self.caps.think.iter().flat_map(|think| [think.start.as_str(), think.end.as_str()]);
        markers.into_iter().chain(tags).any(|text| self.control(tokenizer, text).is_some())
    }

    /// A parser of one reply.
    pub(super) fn parser(&self, turn: &ChatTurn, start: &ReplyStart, prefix: &str) -> OutputParser {
        OutputParser::new(ParserOptions {
            markup: self.caps.markup,
            tools: turn.tools.list.clone(),
            choice: turn.tools.choice.clone(),
            parallel: self.parallel(turn),
            reasoning: turn.reasoning.format.for_stream(turn.generation.stream),
            think: self.caps.think.clone(),
            start: start.clone(),
            prefix: prefix.to_owned(),
        })
    }
}

fn message_error(error: MessageError) -> ApiError {
    match error.status() {
        500 => {
            ApiError::new(ErrorKind::Server, format!("{error} - hint: this model has no projector for it"))
        }
        _ => ApiError::invalid(error.to_string()),
    }
}
