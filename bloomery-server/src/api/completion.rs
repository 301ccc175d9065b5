//! `POST /completion`.

use std::sync::Arc;

use bloomery_core::scheduler::{Event, Progress};
use bloomery_core::tokenizer::Specials;
use serde_json::{Map, Value};

use super::answer::Answer;
use super::constraint::constraints;
use super::fields;
use super::generation::Generation;
use super::jobs::Jobs;
use super::native::{Native, pick};
use super::outlet::Outlet;
use super::probs::Probs;
use super::prompt::Prompts;
use super::settings::{ChatSettings, Form};
use super::timings::prompt_progress;
use crate::app::App;
use crate::error::ApiError;
use crate::http::{ClientGone, Events, Reply, Request};

/// The prompts of the request, completed.
pub(super) async fn completion(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let body = fields::object(request)?;
    let prompts = prompts(app, &body).await?;
    run(app, &body, prompts).await
}

/// The prompts of a body.
pub(super) async fn prompts(app: &Arc<App>, body: &Map<String, Value>) -> Result<Vec<Vec<u32>>, ApiError> {
    let prompt = body.get("prompt").ok_or_else(|| ApiError::invalid("\"prompt\" is required"))?;
    Prompts::read(app, prompt)?.encode(app, true, Specials::Parse).await
}

/// Completes prompts and answers in the native form.
pub(super) async fn run(
    app: &Arc<App>,
    body: &Map<String, Value>,
    prompts: Vec<Vec<u32>>,
) -> Result<Reply, ApiError> {
    let (work, jobs) = Work::start(app, body, prompts).await?;
    if work.generation.stream {
        let (sender, events) = Events::channel();
        let outlet = Outlet::new(sender, work.generation.ping);
        tokio::spawn(async move {
            // Who is gone needs no answer.
            let _ = work.stream(jobs, outlet).await;
        });
        return Ok(Reply::events(events));
    }
    work.whole(jobs).await.map(|value| Reply::json(&value))
}

/// A request whose jobs run.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) app: Arc<App>,
    pub(super) generation: Generation,
    /// The settings' long form.
    pub(super) settings: Value,
}

impl Work {
    /// Reads the request and starts its jobs. Returns when the first has a slot.
    pub(super) async fn start(
        app: &Arc<App>,
        body: &Map<String, Value>,
        prompts: Vec<Vec<u32>>,
    ) -> Result<(Self, Jobs), ApiError> {
        let generation = Generation::read(app, body)?;
        let chat = ChatSettings::plain(&app.options.reasoning_format);
        let (settings, short) =
            (generation.settings(&chat, Form::Long), generation.settings(&chat, Form::Short));
        let constraints = constraints(app, generation.grammar.as_ref(), prompts.len() * generation.n).await?;
        let mut jobs = Jobs::submit(app, prompts, &generation, constraints, short)?;
        jobs.started().await?;
        Ok((Self { app: Arc::clone(app), generation, settings }, jobs))
    }

    /// How probabilities are shown, where they are wanted.
    pub(super) fn probs(&self) -> Option<Probs<'_>> {
        let params = &self.generation.params;
        (params.sampling.n_probs > 0).then(|| Probs {
            tokenizer: self.app.engine.tokenizer(),
            post_sampling: params.sampling.post_sampling_probs,
            special: params.special,
        })
    }

    /// The native objects.
    pub(super) fn native(&self) -> Native<'_> {
        Native { app: &self.app, generation: &self.generation, settings: &self.settings }
    }

    /// Waits for all answers.
    pub(super) async fn answers(&self, jobs: &mut Jobs) -> Result<Vec<Answer>, ApiError> {
        let probs = self.probs();
        let mut answers = vec![Answer::default(); jobs.len()];
        while let Some((index, event)) = jobs.next().await {
            answers[index].take(event, probs.as_ref())?;
        }
        for answer in &mut answers {
            answer.cut_stop_text(&self.generation, self.app.engine.tokenizer());
        }
        Ok(answers)
    }

    async fn whole(&self, mut jobs: Jobs) -> Result<Value, ApiError> {
        let answers = self.answers(&mut jobs).await?;
        let native = self.native();
        let mut values: Vec<Value> = (answers.iter().enumerate())
            .map(|(index, answer)| native.last(&jobs, index, answer))
            .map(|value| pick(value, &self.generation.response_fields))
            .collect();
        Ok(if values.len() == 1 { values.remove(0) } else { Value::Array(values) })
    }

    async fn stream(self, mut jobs: Jobs, mut outlet: Outlet) -> Result<(), ClientGone> {
        let (native, probs) = (self.native(), self.probs());
        let mut answers = vec![Answer::default(); jobs.len()];
        while let Some((index, event)) = outlet.next(&mut jobs).await? {
            let answer = &mut answers[index];
            let chunk = self.chunk(&jobs, index, &event, probs.as_ref());
            let ended = matches!(event, Event::Done(_));
            if let Err(error) = answer.take(event, None) {
                return outlet.data(&error.body()).await;
            }
            if let Some(chunk) = chunk {
                outlet.data(&Value::Object(chunk)).await?;
            }
            if ended {
                outlet.data(&native.last(&jobs, index, answer)).await?;
            }
        }
        Ok(())
    }

    /// What a stream says of an event.
    fn chunk(
        &self,
        jobs: &Jobs,
        index: usize,
        event: &Event,
        probs: Option<&Probs<'_>>,
    ) -> Option<Map<String, Value>> {
        let native = self.native();
        match event {
            Event::Started { .. } | Event::Prompt(_) => {
                let progress = self.progress(event)?;
                let total = jobs.prompt(index).len();
                let mut chunk = native.chunk(jobs, index, "", None, &progress);
                chunk.insert("prompt_progress".to_owned(), prompt_progress(&progress, total));
                Some(chunk)
            }
            Event::Token(token) => {
                let sampled = &token.sampled;
                let mut chunk = native.chunk(jobs, index, &token.text, Some(sampled.id), &token.progress);
                if let Some(probs) = probs {
                    let entries = Value::Array(vec![probs.entry(sampled)]);
                    chunk.insert("completion_probabilities".to_owned(), entries);
                }
                Some(chunk)
            }
            // What was held back comes by itself: the last object has no text.
            Event::Done(end) if !end.text.is_empty() => {
                Some(native.chunk(jobs, index, &end.text, None, &end.progress))
            }
            _ => None,
        }
    }

    /// The progress that an event stands for, where the client wants to know of it.
    pub(super) fn progress(&self, event: &Event) -> Option<Progress> {
        match *event {
            Event::Started { cached, .. } => Some(Progress { cached, ..Progress::default() }),
            Event::Prompt(progress) => Some(progress),
            _ => None,
        }
        .filter(|_| self.generation.return_progress)
    }
}
