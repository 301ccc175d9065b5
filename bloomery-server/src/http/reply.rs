//! What goes out.

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::Value;

use super::Events;
use crate::error::{ApiError, ErrorKind};

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: ReplyBody,
}

/// The body of an answer.
#[derive(Debug)]
pub enum ReplyBody {
    /// All at once.
    Whole(Bytes),
    /// Server-sent events, as they happen.
    Events(Events),
}

const JSON: &str = "application/json; charset=utf-8";

impl Reply {
    /// 200 with JSON.
    #[must_use]
    pub fn json(value: &Value) -> Self {
        Self::json_status(StatusCode::OK, value)
    }

    /// JSON with any status.
    #[must_use]
    pub fn json_status(status: StatusCode, value: &Value) -> Self {
        Self::whole(status, JSON, value.to_string())
    }

    /// A body of any type.
    pub fn whole(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, content_type, headers: Vec::new(), body: ReplyBody::Whole(body.into()) }
    }

    /// 200 with a stream of events.
    #[must_use]
    pub fn events(events: Events) -> Self {
        let headers = vec![("X-Accel-Buffering", "no".to_owned()), ("Cache-Control", "no-cache".to_owned())];
        let body = ReplyBody::Events(events);
        Self { status: StatusCode::OK, content_type: "text/event-stream", headers, body }
    }

    /// The same with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl From<ApiError> for Reply {
    fn from(error: ApiError) -> Self {
        let reply = Self::json_status(error.kind.status(), &error.body());
        if error.kind == ErrorKind::Unavailable { reply.with_header("Retry-After", "1") } else { reply }
    }
}
