//! Routes of llama-server that this server answers with a reason.

use crate::error::{ApiError, ErrorKind};

/// `/rerank`.
pub(super) fn rerank() -> ApiError {
    ApiError::not_supported("This server does not support reranking. Start it with `--reranking`")
}

/// `/v1/audio/transcriptions`.
pub(super) fn audio() -> ApiError {
    ApiError::not_supported("This model has no audio input")
}

/// `/tools`.
pub(super) fn tools() -> ApiError {
    ApiError::new(ErrorKind::FeatureDisabled, "This server runs no tools (--tools)")
}

/// `/cors-proxy`.
pub(super) fn proxy() -> ApiError {
    ApiError::new(ErrorKind::FeatureDisabled, "This server is no proxy (--ui-mcp-proxy)")
}
