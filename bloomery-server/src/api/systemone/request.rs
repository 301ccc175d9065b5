//! The body of a request.

use bloomery_core::decide::{Json, Question};

use super::media;
use crate::error::ApiError;

/// A state and what is asked of it. All other keys are ignored.
pub(super) struct Body {
    pub(super) state: Json,
    pub(super) questions: Vec<Question>,
}

impl Body {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, ApiError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| ApiError::invalid(format!("the body is not UTF-8: {error}")))?;
        let body =
            Json::parse(text).map_err(|error| ApiError::invalid(format!("the body is not JSON: {error}")))?;
        let Json::Object(_) = body else {
            let kind = body.kind();
            return Err(ApiError::invalid(format!("the body is {kind}, expected a JSON object")));
        };
        // A state of null is a state.
        let state = body.get("state").ok_or_else(|| ApiError::invalid("\"state\" must be provided"))?;
        let questions = Question::from_json(body.get("questions").unwrap_or(&Json::Null))
            .map_err(|error| ApiError::invalid(error.to_string()))?;
        media::refuse(&body, state)?;
        Ok(Self { state: state.clone(), questions })
    }
}
