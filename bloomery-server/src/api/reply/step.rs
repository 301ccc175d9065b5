//! What happens to a reply, before a wire format tells it.

use bloomery_core::scheduler::Progress;
use serde_json::Value;

use crate::chat::Delta;

/// One thing that happened to one choice.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A slot has taken the prompt.
    Started {
        /// Prompt tokens that need not be computed.
        cached: usize,
    },
    /// A part of the prompt is computed.
    Prompt(Progress),
    /// A token was generated. It may bring no text.
    Token {
        /// What it adds to the reply.
        deltas: Vec<Delta>,
        /// Its probabilities, where they are asked for.
        probs: Option<Value>,
        /// How far the job is with it.
        progress: Progress,
    },
    /// The choice is complete.
    End(End),
}

/// The end of a choice.
#[derive(Debug, Clone)]
pub(crate) struct End {
    /// Text that was held back until now.
    pub(crate) deltas: Vec<Delta>,
    /// Why it ended.
    pub(crate) finish: Finish,
    /// How far the job came.
    pub(crate) progress: Progress,
    /// The object of the native route, for `__verbose`.
    pub(crate) verbose: Option<Value>,
}

/// Why a choice ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The model ended its turn, or the grammar is complete.
    Stop,
    /// This text of the request appeared.
    StopText(String),
    /// The budget is used up, or the context.
    Length,
    /// The model ended its turn with complete calls.
    ToolCalls,
}
