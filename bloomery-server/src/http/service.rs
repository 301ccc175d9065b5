//! What happens to a request before and after its route.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CONNECTION, CONTENT_TYPE, EXPECT, HeaderName, HeaderValue, SERVER,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::json;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;
use tokio::time::Instant;

use super::auth::Keys;
use super::body::{BodyError, BodyLimits, Budget, collect, discard};
use super::flight::{Flight, Guard};
use super::outgoing::Outgoing;
use super::phase::{Phase, reached};
use super::{Query, Reply, ReplyBody, Request};
use crate::api;
use crate::error::{ApiError, ErrorKind};
use crate::logs;
use crate::options::HttpOptions;

/// Handlers of bodies longer than this run beside the executor: parsing, rendering and tokenising them takes milliseconds
/// and more, in which other requests must be answered.
const LONG_BODY: usize = 64 << 10;

/// Answers requests.
pub trait Answer: Clone + Send + Sync + 'static {
    /// Whether it can answer yet.
    fn is_ready(&self) -> bool;

    /// Answers one request. The future is dropped when the client goes away.
    fn answer(&self, request: Request) -> impl Future<Output = Reply> + Send;
}

/// How long things may take and how large they may be.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// From one reply to the end of the next request's head.
    pub(super) head: Duration,
    pub(super) head_bytes: usize,
    pub(super) handshake: Duration,
    pub(super) body: BodyLimits,
    /// Bytes of all bodies together.
    pub(super) bodies: usize,
    /// Silence of a peer that has bytes to take.
    pub(super) write: Duration,
    /// For replies to end by themselves once the server stops, and then for them to be cut.
    pub(super) drain: Duration,
    pub(super) cut: Duration,
    /// For a peer to read the last bytes.
    pub(super) linger: Duration,
}

impl Limits {
    pub(super) fn new(options: &HttpOptions) -> Self {
        let silence = options.timeout.clamp(Duration::from_secs(5), Duration::from_secs(60));
        let body = BodyLimits {
            size: options.max_body,
            silence,
            rate: 4 << 10,
            discard: 256 << 20,
            discard_time: Duration::from_secs(30),
        };
        Self {
            head: silence,
            head_bytes: 64 << 10,
            handshake: Duration::from_secs(10),
            bodies: options.max_body.saturating_mul(4).max(256 << 20),
            body,
            write: options.timeout.max(Duration::from_secs(1)),
            drain: Duration::from_secs(3),
            cut: Duration::from_secs(1),
            linger: Duration::from_secs(2),
        }
    }
}

/// What all connections of a server share.
pub(super) struct Shared<A> {
    pub(super) options: HttpOptions,
    pub(super) limits: Limits,
    pub(super) keys: Keys,
    pub(super) budget: Budget,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) answer: A,
}

/// The client went away before its request was complete.
#[derive(Debug, thiserror::Error)]
#[error("the request is incomplete")]
pub(super) struct Incomplete;

/// Serves one request.
pub(super) async fn serve<A: Answer>(
    shared: Arc<Shared<A>>,
    flight: Flight,
    request: hyper::Request<Incoming>,
) -> Result<Response<Outgoing>, Incomplete> {
    let start = Instant::now();
    let guard = flight.begin();
    let (parts, mut body) = request.into_parts();
    let origin = shared.options.cors.allowed_origin(&parts.headers);
    let mut close = false;
    let reply = match shared.admit(&parts) {
        Ok(path) => match collect(&mut body, &shared.limits.body, &shared.budget).await {
            Ok(whole) => {
                guard.answering();
                let request = read_request(&parts, path, whole.bytes);
                let reply = shared.run(request).await;
                drop(whole.share);
                reply
            }
            Err(BodyError::Broken) => return Err(Incomplete),
            Err(error) => {
                close = error == BodyError::TooSlow || !shared.skip(&parts, &mut body).await;
                shared.refusal(error)
            }
        },
        Err(reply) => {
            close = !shared.skip(&parts, &mut body).await;
            *reply
        }
    };
    logs::access(&parts.method, parts.uri.path(), reply.status, start.elapsed());
    Ok(shared.finish(reply, &parts, origin, close, guard))
}

impl<A: Answer> Shared<A> {
    /// The path of a route, for a request that may go there; or what it gets instead.
    fn admit(&self, parts: &Parts) -> Result<String, Box<Reply>> {
        if parts.method == Method::OPTIONS {
            return Err(Box::new(self.options.cors.preflight()));
        }
        let error = |kind, message: &str| Err(Box::new(Reply::from(ApiError::new(kind, message))));
        if *self.phase.borrow() != Phase::Open {
            return error(ErrorKind::Unavailable, "The server is shutting down");
        }
        let path = percent_decode_str(parts.uri.path()).decode_utf8_lossy();
        let path = path.strip_prefix(self.options.prefix.as_str());
        // The page is there before the model is, and tells how far that is.
        if let Some(page) = path.filter(|_| self.options.ui).and_then(|path| api::page(&parts.method, path)) {
            return Err(Box::new(page));
        }
        let path = path.filter(|path| path.starts_with('/'));
        if !self.answer.is_ready() {
            return error(ErrorKind::Unavailable, "Loading model");
        }
        let public = matches!(path, Some("/" | "/health" | "/v1/health"));
        if !public && !self.keys.admit(&parts.headers) {
            return error(ErrorKind::Authentication, "Invalid API Key");
        }
        match path {
            Some(path) => Ok(path.to_owned()),
            None => error(ErrorKind::NotFound, "File Not Found"),
        }
    }

    /// Reads what nobody wants of a body. Whether the connection can go on after it.
    async fn skip(&self, parts: &Parts, body: &mut Incoming) -> bool {
        // A client that waits for leave to send its body does not get it.
        let waits = parts.headers.get(EXPECT).is_some();
        hyper::body::Body::is_end_stream(body) || (!waits && discard(body, &self.limits.body).await)
    }

    /// Lets the route answer. Ends early, with an error, when the server stops.
    async fn run(&self, request: Request) -> Reply {
        let long = request.body.len() > LONG_BODY;
        let stop = reached(self.phase.clone(), Phase::Cut);
        tokio::select! {
            biased;
            reply = contained(long, self.answer.answer(request)) => reply,
            () = stop => Reply::from(ApiError::new(ErrorKind::Unavailable, "The server is shutting down")),
        }
    }

    fn refusal(&self, error: BodyError) -> Reply {
        let limit = self.options.max_body;
        match error {
            BodyError::TooLarge => Reply::from(ApiError::new(
                ErrorKind::TooLarge,
                format!("The body is larger than {limit} bytes, the most this server takes"),
            )),
            BodyError::NoRoom => Reply::from(ApiError::new(
                ErrorKind::Unavailable,
                "Other requests with large bodies are in work; try again",
            )),
            BodyError::TooSlow | BodyError::Broken => {
                let status = StatusCode::REQUEST_TIMEOUT;
                let error = json!({
                    "code": status.as_u16(),
                    "message": "The body of the request came too slowly",
                    "type": ErrorKind::InvalidRequest.name(),
                });
                Reply::json_status(status, &json!({ "error": error }))
            }
        }
    }

    fn finish(
        &self,
        reply: Reply,
        parts: &Parts,
        origin: Option<HeaderValue>,
        close: bool,
        guard: Guard,
    ) -> Response<Outgoing> {
        let body = match reply.body {
            ReplyBody::Whole(bytes) => Outgoing::whole(bytes),
            ReplyBody::Events(events) => Outgoing::Events {
                events: Some((events, guard)),
                stop: Box::pin(reached(self.phase.clone(), Phase::Cut)),
                last: last_event(parts.uri.path()),
            },
        };
        let mut response = Response::new(body);
        *response.status_mut() = reply.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
        headers.insert(SERVER, HeaderValue::from_static("llama.cpp"));
        if let Some(origin) = origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        }
        if close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        for (name, value) in reply.headers {
            match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value)) {
                (Ok(name), Ok(value)) => drop(headers.insert(name, value)),
                _ => tracing::warn!(name, "a header that cannot be sent"),
            }
        }
        response
    }
}

fn read_request(parts: &Parts, path: String, body: Bytes) -> Request {
    let method = if parts.method == Method::HEAD { Method::GET } else { parts.method.clone() };
    let query = parts.uri.query().map(Query::parse).unwrap_or_default();
    Request { method, path, query, headers: parts.headers.clone(), body }
}

/// Ends a stream that is cut: in the shape of the route's other errors.
fn last_event(path: &str) -> Bytes {
    let error = ApiError::new(ErrorKind::Unavailable, "The server is shutting down");
    if path.ends_with("/v1/messages") {
        let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": error.message}});
        Bytes::from(format!("event: error\ndata: {error}\n\n"))
    } else {
        Bytes::from(format!("data: {}\n\n", error.body()))
    }
}

/// Runs a handler. A panic becomes an error of the server; work on a long body leaves the executor to others.
async fn contained(long: bool, answer: impl Future<Output = Reply>) -> Reply {
    let mut answer = pin!(answer);
    let beside = long && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    let poll = |cx: &mut Context<'_>| {
        let mut step = || catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx)));
        match if beside { tokio::task::block_in_place(step) } else { step() } {
            Ok(poll) => poll,
            Err(_) => {
                tracing::error!("a handler panicked");
                let error = ApiError::new(ErrorKind::Server, "Internal error while answering the request");
                Poll::Ready(Reply::from(error))
            }
        }
    };
    std::future::poll_fn(poll).await
}
