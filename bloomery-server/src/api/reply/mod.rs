//! A reply in the wire formats of three APIs.
//!
//! A choice lives through [`Step`]s. Each [`Wire`] turns them into the events of a stream one by one, or into one object
//! once they are put together in a [`Whole`]; so both say the same.

mod anthropic;
mod frame;
mod message;
mod openai;
mod responses;
mod step;
#[cfg(test)]
mod tests;
mod usage;

pub(crate) use anthropic::{AnthropicWire, error_body as anthropic_error};
pub(crate) use frame::Frame;
pub(crate) use message::Message;
pub(crate) use openai::ChatWire;
pub(crate) use responses::{ResponsesWire, inner_call_id};
pub(crate) use step::{End, Finish, Step};
pub(crate) use usage::Usage;

use bloomery_core::scheduler::Progress;
use serde_json::Value;

use crate::api::ids;
use crate::error::ApiError;

/// A wire format, and how far the stream in it is.
pub(crate) trait Wire: Send + Sync {
    /// Appends the events that tell of a step.
    fn step(&mut self, choice: usize, step: &Step, out: &mut Vec<Frame>);

    /// The object that tells of all choices at once. There is at least one.
    fn object(&self, choices: &[Whole]) -> Value;

    /// The event after which a stream breaks off.
    fn failed(&self, error: &ApiError) -> Frame {
        Frame::Data(error.body())
    }

    /// The event that only shows that the connection lives.
    fn ping(&self) -> Frame {
        Frame::Comment
    }
}

/// What all events of a reply have in common.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Letters and digits; each format has its own prefix.
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    /// The server's name for the model.
    pub(crate) model: String,
    /// Tokens of the prompt.
    pub(crate) prompt: usize,
    /// How many choices there are.
    pub(crate) choices: usize,
    /// Whether the stream ends with the usage.
    pub(crate) usage: bool,
    /// Whether every event has timings.
    pub(crate) timings_per_token: bool,
    /// Whether the progress of the prompt is told.
    pub(crate) progress: bool,
}

impl Facts {
    /// Those of a reply with one choice and nothing optional.
    pub(crate) fn new(model: &str, prompt: usize) -> Facts {
        Facts {
            id: ids::random(32),
            created: ids::now(),
            model: model.to_owned(),
            prompt,
            choices: 1,
            usage: false,
            timings_per_token: false,
            progress: false,
        }
    }
}

/// A choice that is complete.
#[derive(Debug, Clone)]
pub(crate) struct Whole {
    /// What it says.
    pub(crate) message: Message,
    /// Probabilities of its tokens, where they are asked for.
    pub(crate) probs: Vec<Value>,
    /// Why it ended.
    pub(crate) finish: Finish,
    /// How far the job came.
    pub(crate) progress: Progress,
    /// For `__verbose`.
    pub(crate) verbose: Option<Value>,
}
