//! What is wrong with the messages of a request.

/// Messages that cannot be laid out. The texts are those that clients of llama-server know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// A message is no object.
    #[error("message {index}: expected an object, got {found}")]
    NotObject {
        /// Place in the list, from 0.
        index: usize,
        /// What stands there.
        found: &'static str,
    },
    /// A message has no role, or one that is no text.
    #[error("message {index}: 'role' is required and must be a string")]
    Role {
        /// Place in the list, from 0.
        index: usize,
    },
    /// A message other than the assistant's has no content.
    #[error("All non-assistant messages must contain 'content' (message {index}, role '{role}')")]
    NoContent {
        /// Place in the list, from 0.
        index: usize,
        /// Its role.
        role: String,
    },
    /// The assistant said nothing and called nothing.
    #[error("Assistant message must contain either 'content' or 'tool_calls'! (message {index})")]
    Empty {
        /// Place in the list, from 0.
        index: usize,
    },
    /// Content of a type that has no meaning.
    #[error("message {index}: expected 'content' to be a string or an array, got {found}")]
    Content {
        /// Place in the list, from 0.
        index: usize,
        /// What stands there.
        found: &'static str,
    },
    /// A part of a content that is not known.
    #[error("unsupported content[].type: {kind:?} (message {index})")]
    Part {
        /// Place in the list, from 0.
        index: usize,
        /// The part's type; empty where it has none.
        kind: String,
    },
    /// Something other than text. The server cannot take it.
    #[error("{kind} input is not supported")]
    Media {
        /// `image`, `audio` or `video`.
        kind: &'static str,
    },
    /// A call in the history that is none.
    #[error("message {index}: tool call {call}: {what}")]
    Call {
        /// Place in the list, from 0.
        index: usize,
        /// Place among the calls of the message, from 0.
        call: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl MessageError {
    /// The status that llama-server answers with: 500 for input that it would need another model file for, else 400.
    pub fn status(&self) -> u16 {
        match self {
            MessageError::Media { .. } => 500,
            _ => 400,
        }
    }
}
