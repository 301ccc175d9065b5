//! What can go wrong between a template and a prompt.

use std::error::Error as _;
use std::sync::Arc;

use bloomery_gguf::GgufError;
use minijinja::ErrorKind;

use super::template::MAX_OUTPUT;

/// A template that cannot be compiled, or a conversation it cannot lay out.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template is not valid Jinja.
    #[error("chat template {template:?} line {line}: {message}")]
    Syntax {
        /// Name of the variant: `default`, `tool_use`, ...
        template: String,
        /// Line of the template, from 1.
        line: usize,
        /// What the parser objects to.
        message: String,
    },
    /// The template is larger than any that is known, by a wide margin.
    #[error("chat template {template:?} line {line} has more than {limit} {what}")]
    TooLarge {
        /// Name of the variant.
        template: String,
        /// Line where the limit is passed, from 1.
        line: usize,
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
    /// The thread for the rendering could not be started.
    #[error("no thread for the chat template: {message}")]
    Thread {
        /// What the system says.
        message: String,
    },
    /// The template called `raise_exception`: it refuses this conversation.
    #[error("chat template {template:?} line {line} refuses the conversation: {message}")]
    Raised {
        /// Name of the variant.
        template: String,
        /// Line of the call, from 1.
        line: usize,
        /// The message of the template itself.
        message: String,
    },
    /// An operation inside the template failed, such as an attribute of something undefined.
    #[error("chat template {template:?} line {line}: {message}")]
    Render {
        /// Name of the variant.
        template: String,
        /// Line of the failing operation, from 1.
        line: usize,
        /// What failed.
        message: String,
    },
    /// The template used up its budget of work: it loops for too long or builds too much.
    #[error("chat template {template:?} line {line} exceeds the limit of {limit} units of work")]
    OutOfFuel {
        /// Name of the variant.
        template: String,
        /// Line that was running, from 1.
        line: usize,
        /// The budget, see [`FUEL`](super::FUEL).
        limit: u64,
    },
    /// Macros or loops call themselves too deeply.
    #[error("chat template {template:?} line {line} exceeds the recursion limit of {limit}")]
    TooDeep {
        /// Name of the variant.
        template: String,
        /// Line that was running, from 1.
        line: usize,
        /// The limit of nested frames.
        limit: usize,
    },
    /// The prompt grew past [`MAX_OUTPUT`].
    #[error("chat template {template:?} writes a prompt of more than {limit} bytes")]
    OutputTooLong {
        /// Name of the variant.
        template: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// A metadata key of the file is missing or has the wrong type.
    #[error(transparent)]
    Metadata(Arc<GgufError>),
    /// The conversation has no messages.
    #[error("the conversation is empty: a chat template needs at least one message")]
    NoMessages,
    /// A message is not a JSON object.
    #[error("message {index} is {found}, not an object")]
    MessageNotObject {
        /// Position in the conversation, from 0.
        index: usize,
        /// The JSON type found.
        found: &'static str,
    },
    /// The request nests lists and objects deeper than a template may walk.
    #[error("{place} nests more than {limit} levels deep")]
    RequestTooDeep {
        /// Part of the request, such as `messages`.
        place: &'static str,
        /// Levels allowed.
        limit: usize,
    },
    /// The file has named variants only, and none of them fits the request.
    #[error("the file has no default chat template, only: {}", .names.join(", "))]
    NoDefault {
        /// The variants there are.
        names: Vec<String>,
    },
}

/// Carries the message of `raise_exception` through the engine's error chain.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

impl From<GgufError> for TemplateError {
    fn from(error: GgufError) -> TemplateError {
        TemplateError::Metadata(Arc::new(error))
    }
}

impl TemplateError {
    /// Sorts an error of the template engine by what the reader should do about it.
    pub(super) fn from_engine(
        template: &str,
        error: &minijinja::Error,
        fuel: u64,
        recursion: usize,
    ) -> TemplateError {
        let template = template.to_owned();
        let line = error.line().unwrap_or(0);
        if let Some(message) = raised(error) {
            return TemplateError::Raised { template, line, message };
        }
        if in_chain(error, |e| e.kind() == ErrorKind::OutOfFuel) {
            return TemplateError::OutOfFuel { template, line, limit: fuel };
        }
        if in_chain(error, |e| e.kind() == ErrorKind::WriteFailure) {
            return TemplateError::OutputTooLong { template, limit: MAX_OUTPUT };
        }
        if in_chain(error, |e| e.detail() == Some("recursion limit exceeded")) {
            return TemplateError::TooDeep { template, line, limit: recursion };
        }
        let message = match error.detail() {
            Some(detail) => format!("{}: {detail}", error.kind()),
            None => error.kind().to_string(),
        };
        match error.kind() {
            ErrorKind::SyntaxError | ErrorKind::BadEscape => {
                TemplateError::Syntax { template, line, message }
            }
            _ => TemplateError::Render { template, line, message },
        }
    }
}

fn raised(error: &minijinja::Error) -> Option<String> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(Raised(message)) = error.downcast_ref::<Raised>() {
            return Some(message.clone());
        }
        source = error.source();
    }
    None
}

fn in_chain(error: &minijinja::Error, test: impl Fn(&minijinja::Error) -> bool) -> bool {
    if test(error) {
        return true;
    }
    let mut source = error.source();
    while let Some(error) = source {
        if error.downcast_ref::<minijinja::Error>().is_some_and(&test) {
            return true;
        }
        source = error.source();
    }
    false
}
