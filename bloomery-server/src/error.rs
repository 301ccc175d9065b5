//! Errors as clients see them: one JSON shape for all routes.

use bloomery_core::EngineError;
use hyper::StatusCode;
use serde_json::{Map, Value, json};

/// The `type` of an error and the status it comes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// 400: the request is wrong.
    InvalidRequest,
    /// 400: the prompt does not fit the context.
    ExceedContextSize,
    /// 401: no key, or a wrong one.
    Authentication,
    /// 403: a feature that is switched off.
    FeatureDisabled,
    /// 404: no such route or thing.
    NotFound,
    /// 413: the body is too large.
    TooLarge,
    /// 500: the engine failed.
    Server,
    /// 501: this model or this server cannot do it.
    NotSupported,
    /// 503: not now.
    Unavailable,
}

impl ErrorKind {
    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest | Self::ExceedContextSize => StatusCode::BAD_REQUEST,
            Self::Authentication => StatusCode::UNAUTHORIZED,
            Self::FeatureDisabled => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Server => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotSupported => StatusCode::NOT_IMPLEMENTED,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The `type` in the JSON object.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest | Self::TooLarge => "invalid_request_error",
            Self::ExceedContextSize => "exceed_context_size_error",
            Self::Authentication => "authentication_error",
            Self::FeatureDisabled => "feature_disabled",
            Self::NotFound => "not_found_error",
            Self::Server => "server_error",
            Self::NotSupported => "not_supported_error",
            Self::Unavailable => "unavailable_error",
        }
    }
}

/// What is wrong, for a client.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// What kind of error.
    pub kind: ErrorKind,
    /// What is wrong, with names and numbers.
    pub message: String,
    /// Further keys of the JSON object.
    pub extra: Map<String, Value>,
}

impl ApiError {
    /// An error without further keys.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), extra: Map::new() }
    }

    /// 400.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidRequest, message)
    }

    /// 501.
    pub fn not_supported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotSupported, message)
    }

    /// 400 with both numbers, in the words that clients look for.
    #[must_use]
    pub fn context(prompt: usize, context: usize) -> Self {
        let message = format!(
            "request ({prompt} tokens) exceeds the available context size ({context} tokens), try increasing it"
        );
        let mut error = Self::new(ErrorKind::ExceedContextSize, message);
        error.extra.insert("n_prompt_tokens".to_owned(), json!(prompt));
        error.extra.insert("n_ctx".to_owned(), json!(context));
        error
    }

    /// `{"error": {"code", "message", "type"}}`.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut error = Map::new();
        if self.kind != ErrorKind::FeatureDisabled {
            error.insert("code".to_owned(), json!(self.kind.status().as_u16()));
        }
        error.insert("message".to_owned(), json!(self.message));
        error.insert("type".to_owned(), json!(self.kind.name()));
        error.extend(self.extra.clone());
        json!({ "error": error })
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let kind = match error {
            EngineError::ContextFull { adding, context, .. } => return Self::context(adding - 1, context),
            EngineError::QueueFull { .. } | EngineError::Stopped => ErrorKind::Unavailable,
            EngineError::UnknownToken { .. } => {
                return Self::invalid(format!("Prompt contains invalid tokens: {error}"));
            }
            EngineError::PoolExhausted { .. } => {
                // The first words are llama-server's.
                return Self::new(ErrorKind::Server, format!("Context size has been exceeded: {error}"));
            }
            EngineError::NoSuchSlot { .. }
            | EngineError::NoTokens { .. }
            | EngineError::Sampling(_)
            | EngineError::BadSnapshot { .. }
            | EngineError::NoChatTemplate
            | EngineError::Template(_) => ErrorKind::InvalidRequest,
            _ => ErrorKind::Server,
        };
        Self::new(kind, error.to_string())
    }
}
