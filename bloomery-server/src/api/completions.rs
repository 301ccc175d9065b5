//! `POST /v1/completions`: OpenAI's older API.

use std::sync::Arc;

use bloomery_core::scheduler::Event;
use serde_json::{Map, Value, json};

use super::answer::{Answer, finish_reason};
use super::completion::{Work, prompts};
use super::fields::{self, Fields, field_error};
use super::ids;
use super::jobs::Jobs;
use super::outlet::Outlet;
use super::reply::Frame;
use super::timings::{Usage, prompt_progress, timings};
use crate::app::App;
use crate::error::ApiError;
use crate::http::{ClientGone, Events, Reply, Request};

/// The prompts of the request, completed.
pub(super) async fn completions(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let body = fields::object(request)?;
    refuse(Fields(&body))?;
    let prompts = prompts(app, &body).await?;
    let (work, jobs) = Work::start(app, &body, prompts).await?;
    let text = Text { id: ids::completion(), created: ids::now(), work };
    if text.work.generation.stream {
        let (sender, events) = Events::channel();
        let outlet = Outlet::new(sender, text.work.generation.ping);
        tokio::spawn(async move {
            // Who is gone needs no answer.
            let _ = text.stream(jobs, outlet).await;
        });
        return Ok(Reply::events(events));
    }
    text.whole(jobs).await.map(|value| Reply::json(&value))
}

/// Fields whose effect would be missed.
fn refuse(fields: Fields<'_>) -> Result<(), ApiError> {
    if fields.bool("echo")? == Some(true) {
        return Err(field_error("echo", "the prompt cannot be told back"));
    }
    if fields.integer("best_of", 0..=i64::MAX)?.is_some_and(|best| best > 1) {
        return Err(field_error("best_of", "only 1 is possible"));
    }
    if fields.string("suffix")?.is_some_and(|suffix| !suffix.is_empty()) {
        return Err(field_error("suffix", "use /infill to fill a gap"));
    }
    Ok(())
}

/// Builds the objects of one request.
#[derive(Debug)]
struct Text {
    id: String,
    created: u64,
    work: Work,
}

impl Text {
    async fn whole(&self, mut jobs: Jobs) -> Result<Value, ApiError> {
        let answers = self.work.answers(&mut jobs).await?;
        let mut usage = Usage::default();
        let mut choices = Vec::with_capacity(answers.len());
        for (index, answer) in answers.iter().enumerate() {
            usage.add(&answer.progress, jobs.prompt(index).len(), jobs.is_first(index));
            let logprobs =
                if answer.probs.is_empty() { Value::Null } else { json!({"content": answer.probs}) };
            choices.push(choice(index, &answer.content, logprobs, reason(&jobs, index, answer)));
        }
        let mut object = self.object(choices, Some(usage));
        if let [answer, ..] = answers.as_slice() {
            if self.work.generation.verbose {
                object.insert("__verbose".to_owned(), self.work.native().last(&jobs, 0, answer));
            }
            object.insert("timings".to_owned(), timings(&answer.progress));
        }
        Ok(Value::Object(object))
    }

    async fn stream(self, mut jobs: Jobs, mut outlet: Outlet) -> Result<(), ClientGone> {
        let mut answers = vec![Answer::default(); jobs.len()];
        let (mut usage, mut left) = (Usage::default(), jobs.len());
        while let Some((index, event)) = outlet.next(&mut jobs).await? {
            let answer = &mut answers[index];
            if let Some(chunk) = self.chunk(&jobs, index, &event) {
                outlet.data(&Value::Object(chunk)).await?;
            }
            let ended = matches!(event, Event::Done(_));
            if let Err(error) = answer.take(event, None) {
                return outlet.data(&error.body()).await;
            }
            if ended {
                left -= 1;
                usage.add(&answer.progress, jobs.prompt(index).len(), jobs.is_first(index));
                outlet.data(&Value::Object(self.last(&jobs, index, answer, usage, left == 0))).await?;
            }
        }
        outlet.raw(Frame::Done.bytes()).await
    }

    /// What a stream says of an event.
    fn chunk(&self, jobs: &Jobs, index: usize, event: &Event) -> Option<Map<String, Value>> {
        let (text, logprobs, progress) = match event {
            Event::Started { .. } | Event::Prompt(_) => ("", Value::Null, self.work.progress(event)?),
            Event::Token(token) => {
                let probs = self.work.probs().map(|probs| json!({"content": [probs.entry(&token.sampled)]}));
                (token.text.as_str(), probs.unwrap_or_default(), token.progress)
            }
            Event::Done(end) if !end.text.is_empty() => (end.text.as_str(), Value::Null, end.progress),
            _ => return None,
        };
        let mut object = self.object(vec![choice(index, text, logprobs, None)], None);
        if self.work.generation.timings_per_token {
            object.insert("timings".to_owned(), timings(&progress));
        }
        if matches!(event, Event::Started { .. } | Event::Prompt(_)) {
            let total = jobs.prompt(index).len();
            object.insert("prompt_progress".to_owned(), prompt_progress(&progress, total));
        }
        Some(object)
    }

    /// The last object of a choice. The usage of all is on the last of all.
    fn last(
        &self,
        jobs: &Jobs,
        index: usize,
        answer: &Answer,
        usage: Usage,
        is_last: bool,
    ) -> Map<String, Value> {
        let choice = choice(index, "", Value::Null, reason(jobs, index, answer));
        let mut object = self.object(vec![choice], is_last.then_some(usage));
        if self.work.generation.verbose {
            object.insert("__verbose".to_owned(), self.work.native().last(jobs, index, answer));
        }
        object.insert("timings".to_owned(), timings(&answer.progress));
        object
    }

    fn object(&self, choices: Vec<Value>, usage: Option<Usage>) -> Map<String, Value> {
        let mut map = Map::new();
        let mut set = |name: &str, value: Value| {
            map.insert(name.to_owned(), value);
        };
        set("choices", Value::Array(choices));
        set("created", json!(self.created));
        set("model", json!(self.work.app.id()));
        set("system_fingerprint", json!(ids::BUILD));
        set("object", json!("text_completion"));
        if let Some(usage) = usage {
            set("usage", usage.json());
        }
        set("id", json!(self.id));
        map
    }
}

fn choice(index: usize, text: &str, logprobs: Value, finish_reason: Option<&str>) -> Value {
    json!({"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish_reason})
}

/// Why a choice ended. An empty prompt has nothing to continue.
fn reason(jobs: &Jobs, index: usize, answer: &Answer) -> Option<&'static str> {
    match jobs.prompt(index) {
        [] => Some("length"),
        _ => answer.end.as_ref().map(|end| finish_reason(end.reason)),
    }
}
