//! The jobs of one request: its prompts, times the completions of each.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bloomery_core::constrain::Constraint;
use bloomery_core::scheduler::{Event, Job, Outcome, Progress, Token};
use bloomery_core::{EngineError, Params, StopReason};
use serde_json::Value;

use super::generation::Generation;
use super::lines::Lines;
use crate::app::App;
use crate::error::ApiError;
use crate::stream::JobStream;

/// Shown in `/slots` while a job runs and after it.
#[derive(Debug)]
pub(crate) struct SlotTag {
    /// The settings' short form.
    pub(crate) settings: Value,
    /// The first prompt, on a server that may show it.
    pub(crate) prompt: Option<String>,
}

/// Jobs with the events of all. Dropping them cancels what has not ended.
#[derive(Debug)]
pub(crate) struct Jobs {
    app: Arc<App>,
    /// Prompts, in the order of the request.
    prompts: Vec<Vec<u32>>,
    n: usize,
    waiting: VecDeque<Waiting>,
    running: Vec<Running>,
    ready: VecDeque<(usize, Event)>,
    slots: Vec<Option<usize>>,
    reuse: bool,
    lines: Option<Lines>,
    tag: Arc<SlotTag>,
}

/// A job that is not submitted yet.
#[derive(Debug)]
struct Waiting {
    index: usize,
    params: Params,
    slot: Option<usize>,
    constraint: Option<Box<dyn Constraint>>,
}

/// A job that is not over: its stream ends after its last event, when its place is free for another.
#[derive(Debug)]
struct Running {
    index: usize,
    stream: JobStream,
    ended: bool,
    lines: Option<Lines>,
}

impl Jobs {
    /// Submits `prompts` x `generation.n` jobs, as many at a time as there are slots. `constraints` is empty or has one
    /// for each job, in the same order; `settings` is the settings' short form.
    ///
    /// # Errors
    /// What is wrong with any of the prompts, or a full queue.
    pub(crate) fn submit(
        app: &Arc<App>,
        prompts: Vec<Vec<u32>>,
        generation: &Generation,
        constraints: Vec<Option<Box<dyn Constraint>>>,
        settings: Value,
    ) -> Result<Self, ApiError> {
        let (context, vocab) = (app.context(), app.engine.model().vocab);
        for prompt in &prompts {
            if prompt.len() >= context {
                return Err(ApiError::context(prompt.len(), context));
            }
            if let Some(&id) = prompt.iter().find(|&&id| id as usize >= vocab) {
                return Err(EngineError::UnknownToken { id, vocab }.into());
            }
        }
        let n = generation.n;
        let shown = prompts.first().filter(|_| app.options.slots_debug);
        let prompt = shown.map(|prompt| app.engine.tokenizer().decode(prompt, true));
        let mut constraints = constraints.into_iter();
        let waiting = (0..prompts.len() * n).map(|index| Waiting {
            index,
            params: generation.params_of(index % n),
            // Only one completion can have the wanted slot at a time.
            slot: generation.slot.filter(|_| index % n == 0),
            constraint: constraints.next().flatten(),
        });
        let mut jobs = Self {
            waiting: waiting.collect(),
            app: Arc::clone(app),
            slots: vec![None; prompts.len() * n],
            prompts,
            n,
            running: Vec::new(),
            ready: VecDeque::new(),
            reuse: generation.cache_prompt,
            lines: Lines::new(generation.indent, generation.time_limit),
            tag: Arc::new(SlotTag { settings, prompt }),
        };
        jobs.submit_some().map_err(|(_, error)| error)?;
        Ok(jobs)
    }

    /// How many jobs there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The prompt of a job.
    pub(crate) fn prompt(&self, index: usize) -> &[u32] {
        &self.prompts[index / self.n]
    }

    /// Whether a job is the first of its prompt's.
    pub(crate) fn is_first(&self, index: usize) -> bool {
        index.is_multiple_of(self.n)
    }

    /// The slot that a job runs in, once it has started.
    pub(crate) fn slot(&self, index: usize) -> Option<usize> {
        self.slots[index]
    }

    /// Waits until one of the jobs has a slot. After it, the answer may begin; errors before it are the whole answer.
    pub(crate) async fn started(&mut self) -> Result<(), ApiError> {
        match self.next().await {
            Some((_, Event::Failed(error))) => Err(error.into()),
            Some(event) => {
                self.ready.push_front(event);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The next event of any job; `None` when all are over. A job that the engine dropped fails.
    pub(crate) async fn next(&mut self) -> Option<(usize, Event)> {
        let (index, mut event) = match self.ready.pop_front() {
            Some(event) => event,
            None => poll_fn(|cx| self.poll(cx)).await?,
        };
        match &mut event {
            Event::Started { slot, .. } => self.slots[index] = Some(*slot),
            Event::Token(token) => self.watch(index, token),
            _ => {}
        }
        Some((index, event))
    }

    /// Ends a job whose lines say so.
    fn watch(&mut self, index: usize, token: &mut Token) {
        let Some(position) = self.running.iter().position(|running| running.index == index) else { return };
        let running = &mut self.running[position];
        let Some(lines) = &mut running.lines else { return };
        let Some(kept) = lines.push(&token.text, token.progress.generate_time) else { return };
        token.text.truncate(kept);
        self.running.remove(position);
        let progress = token.progress;
        let held = progress.cached + progress.prompt + progress.generated;
        let reason = StopReason::MaxTokens;
        let outcome = Outcome { reason, text: String::new(), stop: None, progress, held, seed: 0 };
        self.ready.push_back((index, Event::Done(outcome)));
        if let Err((index, error)) = self.submit_some() {
            self.ready.push_back((index, Event::Failed(error)));
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, Event)>> {
        let mut position = 0;
        while let Some(running) = self.running.get_mut(position) {
            let index = running.index;
            let polled = pin!(running.stream.next()).poll(cx);
            let event = match polled {
                Poll::Pending => {
                    position += 1;
                    continue;
                }
                Poll::Ready(Some(event)) => event,
                Poll::Ready(None) => {
                    let ended = self.running.remove(position).ended;
                    if let Err((index, error)) = self.submit_some() {
                        self.ready.push_back((index, Event::Failed(error)));
                    }
                    if ended {
                        continue;
                    }
                    return Poll::Ready(Some((index, Event::Failed(EngineError::Stopped))));
                }
            };
            running.ended |= matches!(event, Event::Done(_) | Event::Failed(_));
            // The others come first next time.
            self.running.rotate_left(position + 1);
            return Poll::Ready(Some((index, event)));
        }
        match self.ready.pop_front() {
            None if !self.running.is_empty() => Poll::Pending,
            event => Poll::Ready(event),
        }
    }

    /// Submits waiting jobs as long as there are slots.
    fn submit_some(&mut self) -> Result<(), (usize, EngineError)> {
        while self.running.len() < self.app.scheduler.options().slots {
            let Some(Waiting { index, params, slot, constraint }) = self.waiting.pop_front() else {
                return Ok(());
            };
            let prompt = self.prompt(index).to_vec();
            if prompt.is_empty() {
                self.ready.extend(nothing(index));
                continue;
            }
            let (reuse, tag) = (self.reuse, Arc::clone(&self.tag));
            let build =
                |sink| Job { constraint, slot, reuse, tag: Some(tag), ..Job::new(prompt, params, sink) };
            let stream = JobStream::submit(&self.app.scheduler, build).map_err(|error| (index, error))?;
            self.running.push(Running { index, stream, ended: false, lines: self.lines.clone() });
        }
        Ok(())
    }
}

/// The events of an empty prompt, which the engine has no answer to.
fn nothing(index: usize) -> [(usize, Event); 2] {
    let outcome = Outcome {
        reason: StopReason::End,
        text: String::new(),
        stop: None,
        progress: Progress::default(),
        held: 0,
        seed: 0,
    };
    [(index, Event::Started { slot: 0, cached: 0 }), (index, Event::Done(outcome))]
}
