//! A line of the input.

use std::collections::HashSet;

use bloomery_core::{Conversation, Engine, EngineError, Params};
use bloomery_examples::{Failure, Status};
use serde::Deserialize;

/// What a line asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    pub(crate) id: String,
    prompt: String,
    system: Option<String>,
    max_tokens: Option<usize>,
}

impl Question {
    /// Reads a line, whose id may not be among those `seen` before.
    pub(crate) fn parse(line: &[u8], seen: &mut HashSet<String>) -> Result<Self, Failure> {
        let bad = |why: &str| Failure::new(Status::Data, why);
        let question: Self = serde_json::from_slice(line).map_err(|error| bad(&error.to_string()))?;
        match seen.insert(question.id.clone()) {
            true => Ok(question),
            false => Err(bad(&format!("id {:?} came before", question.id))),
        }
    }

    /// The tokens of the prompt.
    pub(crate) fn tokens(&self, engine: &Engine) -> Result<Vec<u32>, EngineError> {
        let mut chat = Conversation::new();
        self.system.iter().for_each(|system| chat.system(system));
        chat.user(&self.prompt);
        chat.prompt(engine)
    }

    /// The parameters of all lines, with what this one says.
    pub(crate) fn params(&self, params: &Params) -> Params {
        Params { max_tokens: self.max_tokens.or(params.max_tokens), ..params.clone() }
    }
}
