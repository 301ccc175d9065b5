//! What a chat request asks for, read from a body of `/v1/chat/completions`. The other APIs' bodies are turned into one
//! first.

mod format;
mod messages;
mod reasoning;
mod tools;

pub(crate) use messages::Continue;
pub(crate) use reasoning::Reasoning;
pub(crate) use tools::Tools;

use serde_json::{Map, Value};

use super::constraint::Grammar;
use super::fields::Fields;
use super::generation::Generation;
use crate::app::App;
use crate::error::ApiError;

/// A chat request.
#[derive(Debug, Clone)]
pub(crate) struct ChatTurn {
    /// The conversation, oldest message first.
    pub(crate) messages: Vec<Value>,
    /// What the model may call.
    pub(crate) tools: Tools,
    /// What the answer has to look like.
    pub(crate) format: Option<Grammar>,
    /// How the model thinks, and where its thinking goes.
    pub(crate) reasoning: Reasoning,
    /// Further variables of the template.
    pub(crate) kwargs: Map<String, Value>,
    /// End the prompt with the header of an answer.
    pub(crate) add_generation_prompt: bool,
    /// The answer goes on with the last message.
    pub(crate) continues: Option<Continue>,
    /// The answer begins with the text that it goes on with.
    pub(crate) echo: bool,
    /// Alternatives told with each token; `None` is no probabilities.
    pub(crate) top_logprobs: Option<usize>,
    /// How to generate, and what to tell of it.
    pub(crate) generation: Generation,
}

impl ChatTurn {
    /// Reads a body whose nulls are gone.
    pub(crate) fn read(app: &App, mut body: Map<String, Value>) -> Result<ChatTurn, ApiError> {
        let tools = Tools::read(app, &body)?;
        let format = format::read(&body)?;
        let messages = messages::read(body.remove("messages"))?;
        let fields = Fields(&body);
        let mut add_generation_prompt = lenient_bool(fields, "add_generation_prompt").unwrap_or(true);
        let continues = messages::continues(app, fields, &messages, &mut add_generation_prompt)?;
        if tools.active() && body.contains_key("grammar") {
            return Err(ApiError::invalid("Cannot use custom grammar constraints with tools."));
        }
        let reasoning = Reasoning::read(app, fields)?;
        let kwargs = reasoning::kwargs(app, fields, &reasoning)?;
        let echo = lenient_bool(fields, "echo").unwrap_or(false);
        let top_logprobs = logprobs(&mut body, !tools.list.is_empty())?;
        let mut generation = Generation::read(app, &body)?;
        let format = format.or_else(|| generation.grammar.take());
        if let Some(top) = top_logprobs {
            generation.params.sampling.n_probs = top.max(1);
        }
        Ok(ChatTurn {
            messages,
            tools,
            format,
            reasoning,
            kwargs,
            add_generation_prompt,
            continues,
            echo,
            top_logprobs,
            generation,
        })
    }
}

/// Alternatives that are told where a request does not say how many.
const TOP_LOGPROBS: usize = 20;

/// Takes the chat API's two fields out of the body: the completions' `logprobs` is a number.
fn logprobs(body: &mut Map<String, Value>, tools: bool) -> Result<Option<usize>, ApiError> {
    let fields = Fields(body);
    let wanted = lenient_bool(fields, "logprobs").unwrap_or(false);
    if !wanted && fields.get("top_logprobs").is_some() {
        return Err(ApiError::invalid("top_logprobs requires logprobs to be set to true"));
    }
    if wanted && tools && lenient_bool(fields, "stream").unwrap_or(false) {
        return Err(ApiError::invalid("logprobs is not supported with tools + stream"));
    }
    let top = fields.count("top_logprobs", 0..=i32::MAX as usize)?;
    if fields.get("logprobs").is_some_and(Value::is_boolean) {
        body.remove("logprobs");
    }
    Ok(wanted.then(|| top.unwrap_or(TOP_LOGPROBS)))
}

/// A field that is read leniently: a value of another type counts as absent.
fn lenient_bool(fields: Fields<'_>, name: &str) -> Option<bool> {
    let value = fields.get(name)?;
    if !value.is_boolean() {
        tracing::debug!(name, "a field is not a boolean and was ignored");
    }
    value.as_bool()
}
