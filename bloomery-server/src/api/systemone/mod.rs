//! `POST /v1/systemone`: typed questions about a state.

mod media;
mod request;
mod rows;

use std::sync::Arc;
use std::time::Instant;

use bloomery_core::EngineError;
use bloomery_core::decide::{DecideError, Decider, Decision, Json, Prompt};
use bloomery_core::scheduler::{Outcome, Progress};
use hyper::StatusCode;

use super::prompt::off_thread;
use crate::app::App;
use crate::error::{ApiError, ErrorKind};
use crate::http::{Reply, Request};
use request::Body;
use rows::Rows;

/// Answers the questions of a request, by one pass of the model over one prompt.
pub(super) async fn systemone(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let decider = app.decider.clone().ok_or(DecideError::NoHead)?;
    let bytes = request.body.clone();
    let make = move || -> Result<_, ApiError> {
        let body = Body::read(&bytes)?;
        let prompt = decider.prompt(&body.state, &body.questions)?;
        Ok((decider, prompt))
    };
    // Tokenising a state may take longer than others want to wait for their next token.
    let (decider, prompt) = off_thread(true, make).await?;
    let (rows, ticket) = Rows::submit(&app.scheduler, prompt.tokens.clone())?;
    let work = move || read(&decider, &prompt, rows);
    let read = off_thread(true, work).await;
    // Until here: a request that is given up takes its job with it.
    drop(ticket);
    let Read { decision, outcome, head_ms } = read?;
    crate::logs::done(&outcome.progress);
    Ok(reply(app.id(), &decision, &outcome.progress, head_ms))
}

/// What came of a prompt.
struct Read {
    decision: Decision,
    outcome: Outcome,
    /// From the last hidden state on.
    head_ms: f64,
}

fn read(decider: &Decider, prompt: &Prompt, mut rows: Rows) -> Result<Read, ApiError> {
    let decision = decider.read(prompt, &mut rows);
    let (outcome, done) = rows.finish()?;
    let head_ms = done.map_or(0.0, |done: Instant| done.elapsed().as_secs_f64() * 1e3);
    Ok(Read { decision: decision?, outcome, head_ms })
}

fn reply(model: &str, decision: &Decision, progress: &Progress, head_ms: f64) -> Reply {
    let object = |pairs: Vec<(&str, Json)>| {
        Json::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    };
    let count = |n: usize| Json::Integer(n.to_string());
    let mut usage = vec![("input_tokens", count(decision.tokens)), ("output_tokens", count(0))];
    if decision.cut > 0 {
        usage.push(("truncated_state_tokens", count(decision.cut)));
    }
    let timings = vec![
        ("prompt_n", count(progress.prompt)),
        ("prompt_ms", Json::Float(progress.prompt_time.as_secs_f64() * 1e3)),
        ("head_ms", Json::Float(head_ms)),
        ("cache_n", count(progress.cached)),
    ];
    let body = object(vec![
        ("model", model.into()),
        ("answers", decision.to_json()),
        ("usage", object(usage)),
        ("timings", object(timings)),
    ]);
    // Written here, because a legend may have integers that no other JSON writer keeps.
    Reply::whole(StatusCode::OK, "application/json; charset=utf-8", body.to_string())
}

impl From<DecideError> for ApiError {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::NoHead => Self::not_supported(error.to_string()),
            DecideError::Question(error) => Self::invalid(error.to_string()),
            DecideError::Engine(EngineError::Tokenizer(error)) => {
                Self::invalid(EngineError::from(error).to_string())
            }
            DecideError::Engine(error) => error.into(),
            _ => Self::new(ErrorKind::Server, error.to_string()),
        }
    }
}

/// What a server whose model is made for decisions says on routes that generate text.
pub(super) fn only_decisions() -> ApiError {
    ApiError::new(
        ErrorKind::NotFound,
        "This model answers questions and writes no text: its route is POST /v1/systemone",
    )
}
