//! A model inside a web service: one engine, one scheduler, an answer for every request as server-sent events.
//! `cargo run --release --example axum [FILE] [ADDRESS]`, then
//! `curl -N http://127.0.0.1:8080/answer -H 'content-type: application/json' -d '{"prompt": "Tell me a story."}'`.
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::convert::Infallible;
use std::error::Error;
use std::future::pending;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bloomery_core::scheduler::{Event, Job, Scheduler, SchedulerOptions, Sink, SinkState};
use bloomery_core::{Conversation, Engine, EngineError, ModelSource, Params};
use futures_util::{Stream, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Answers that are written at the same time. More requests wait.
const SLOTS: usize = 4;

/// Events that may wait for a slow client; then its job pauses.
const BACKLOG: usize = 64;

/// The scheduler's end of one answer. Neither method may block: all jobs share the thread that calls them.
struct Outlet(mpsc::Sender<Event>);

impl Sink for Outlet {
    fn state(&self) -> SinkState {
        match self.0.capacity() {
            _ if self.0.is_closed() => SinkState::Closed,
            0..3 => SinkState::Full,
            _ => SinkState::Open,
        }
    }

    fn send(&mut self, event: Event) {
        // There is room, see above. A client that went away is noticed before the next step.
        let _ = self.0.try_send(event);
    }
}

#[derive(Deserialize)]
struct Ask {
    prompt: String,
    max_tokens: Option<usize>,
}

async fn answer(
    State(scheduler): State<Scheduler>,
    Json(ask): Json<Ask>,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Refusal> {
    let mut chat = Conversation::new();
    chat.user(&ask.prompt);
    let engine = scheduler.engine();
    let params = Params { max_tokens: ask.max_tokens, ..engine.default_params() };
    let prompt = chat.prompt(engine).map_err(Refusal)?;
    let (sender, receiver) = mpsc::channel(BACKLOG);
    scheduler.submit(Job::new(prompt, params, Box::new(Outlet(sender)))).map_err(Refusal)?;
    // A client that disconnects drops the stream, the stream drops the receiver, and that ends the job.
    let events = stream::unfold(receiver, |mut receiver| async {
        loop {
            if let Some(event) = shown(receiver.recv().await?) {
                return Some((Ok(event), receiver));
            }
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// What a client sees of an event.
fn shown(event: Event) -> Option<sse::Event> {
    let (name, data) = match event {
        Event::Token(token) if !token.text.is_empty() => ("text", json!(token.text)),
        Event::Done(outcome) => {
            let (reason, tokens) = (format!("{:?}", outcome.reason), outcome.progress.generated);
            ("done", json!({"text": outcome.text, "reason": reason, "tokens": tokens}))
        }
        Event::Failed(error) => ("error", json!(error.to_string())),
        _ => return None,
    };
    Some(sse::Event::default().event(name).data(data.to_string()))
}

async fn status(State(scheduler): State<Scheduler>) -> Json<Value> {
    let status = scheduler.status();
    let (jobs, cancelled) = (status.counters.jobs, status.counters.cancelled);
    Json(json!({"busy": status.busy(), "waiting": status.waiting, "jobs": jobs, "cancelled": cancelled}))
}

/// An error before the first event has a status code of its own.
struct Refusal(EngineError);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.0 {
            EngineError::QueueFull { .. } | EngineError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
            EngineError::ContextFull { .. }
            | EngineError::NoTokens { .. }
            | EngineError::Template(_)
            | EngineError::Tokenizer(_) => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(json!({"error": self.0.to_string()}))).into_response()
    }
}

/// Waits for Ctrl-C, or for what a service manager sends.
async fn asked_to_stop() {
    #[cfg(unix)]
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signals) => signals.recv().await,
            Err(_) => pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = pending::<()>();
    tokio::select! { _ = tokio::signal::ctrl_c() => {}, _ = terminated => {} }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let model = words.next().map_or_else(ModelSource::demo, |path| path.as_str().into());
    let address = words.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    // Loading blocks, and nothing else is to be done yet. Elsewhere it belongs into `spawn_blocking`.
    let engine = Engine::builder(model).sessions(SLOTS).plan()?.load(|_| {})?;
    let scheduler = Scheduler::new(engine, SchedulerOptions { slots: SLOTS, ..Default::default() })?;
    let app = Router::new().route("/answer", post(answer)).route("/status", get(status));
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    // After the first signal nobody new is let in and running answers end; the second one does not wait for them.
    let served = axum::serve(listener, app.with_state(scheduler)).with_graceful_shutdown(asked_to_stop());
    tokio::select! {
        served = served.into_future() => served?,
        () = async { asked_to_stop().await; asked_to_stop().await } => {}
    }
    Ok(())
}
