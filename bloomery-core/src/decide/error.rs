//! What can go wrong with a decision.

use bloomery_kernels::cpu::KernelError;

use crate::error::EngineError;
use crate::tokenizer::TokenizerError;

/// Questions that cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// There are none.
    #[error("\"questions\" must be a non-empty object")]
    None,
    /// One is wrong.
    #[error("questions.{id}: {why}")]
    Wrong {
        /// Which.
        id: String,
        /// What is wrong.
        why: String,
    },
    /// Two have the same id.
    #[error("questions.{id}: there are two with this id")]
    Twice {
        /// The id.
        id: String,
    },
    /// A text of the question has no tokens, so that there is nothing for the model to look at.
    #[error("questions.{id}: {what} has no tokens")]
    Empty {
        /// Which question.
        id: String,
        /// Its instructions, or one of its options.
        what: String,
    },
    /// The questions alone are longer than the longest prompt.
    #[error("schema requires {needed} tokens before state; maximum is {limit}")]
    TooLong {
        /// Tokens of everything but the state.
        needed: usize,
        /// Tokens of the longest prompt.
        limit: usize,
    },
}

/// A decision that was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// The model has no decision head.
    #[error("This model is not a decision model")]
    NoHead,
    /// The questions are wrong.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// The model computed something that is no number.
    #[error("questions.{question}: the logit of option {option} is not finite")]
    NotFinite {
        /// Which question.
        question: String,
        /// Which option.
        option: String,
    },
    /// Hidden states do not belong to the prompt.
    #[error("{found} hidden states where {expected} are needed")]
    Rows {
        /// Tokens of the prompt.
        expected: usize,
        /// What was passed.
        found: usize,
    },
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<TokenizerError> for DecideError {
    fn from(error: TokenizerError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<KernelError> for DecideError {
    fn from(error: KernelError) -> Self {
        Self::Engine(error.into())
    }
}
