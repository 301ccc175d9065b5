//! The way of every chat request: laid out, encoded, held to a form, generated, read, and told in a wire format.

mod choice;
mod constraint;
mod layout;
mod model;

pub(crate) use layout::{Layout, lay_out};
pub(crate) use model::ChatModel;

use std::sync::Arc;

use bloomery_core::constrain::Constraint;
use bloomery_core::tokenizer::Specials;
use serde_json::Value;

use super::answer::Answer;
use super::jobs::Jobs;
use super::native::Native;
use super::outlet::Outlet;
use super::probs::Probs;
use super::prompt::{encode, off_thread};
use super::reply::{End, Facts, Step, Whole, Wire};
use super::settings::{ChatSettings, Form as SettingsForm};
use super::turn::ChatTurn;
use crate::app::App;
use crate::error::{ApiError, ErrorKind};
use crate::http::{ClientGone, Events, EventsSender, Reply};
use choice::{Choice, Reading};
use constraint::Form;

/// A request on its way: everything but the jobs.
#[derive(Debug)]
struct Run {
    app: Arc<App>,
    model: Arc<ChatModel>,
    turn: ChatTurn,
    layout: Layout,
}

/// The prompt of a request. Templates may take their time.
pub(crate) async fn layout(app: &Arc<App>, turn: ChatTurn) -> Result<(ChatTurn, Layout), ApiError> {
    let model = Arc::clone(&app.chat);
    off_thread(true, move || {
        let layout = lay_out(&model, &turn)?;
        Ok((turn, layout))
    })
    .await
}

/// The tokens of a prompt.
pub(crate) async fn tokens(app: &Arc<App>, prompt: &str) -> Result<Vec<u32>, ApiError> {
    let mut tokens = encode(app, prompt.to_owned(), false, Specials::Parse).await?;
    // Templates write the BOS token themselves or leave it to the tokenizer; it may stand there only once.
    let tokenizer = app.engine.tokenizer();
    if let Some(bos) = tokenizer.bos().filter(|bos| tokenizer.adds_bos() && tokens.first() != Some(bos)) {
        tokens.insert(0, bos);
    }
    Ok(tokens)
}

/// Answers a request. Whatever is wrong with it is known before the first byte of a stream.
pub(crate) async fn reply(
    app: &Arc<App>,
    turn: ChatTurn,
    wire: impl FnOnce(Facts) -> Box<dyn Wire>,
) -> Result<Reply, ApiError> {
    let (mut turn, layout) = layout(app, turn).await?;
    let prompt = tokens(app, &layout.prompt).await?;
    if prompt.len() >= app.context() {
        return Err(ApiError::context(prompt.len(), app.context()));
    }
    let model = Arc::clone(&app.chat);
    turn.generation.params.special |= model.needs_control(app.engine.tokenizer(), &turn);
    let generation = &turn.generation;
    let facts = Facts {
        choices: generation.n,
        usage: generation.include_usage,
        timings_per_token: generation.timings_per_token,
        progress: generation.return_progress,
        ..Facts::new(app.id(), prompt.len())
    };
    let stream = generation.stream;
    let run = Run { app: Arc::clone(app), model, turn, layout };
    let (mut run, constraints) = off_thread(true, move || run.constraints()).await?;
    run.turn.generation.grammar = run.turn.format.clone();
    let settings = run.turn.generation.settings(&run.settings(), SettingsForm::Short);
    let mut jobs = Jobs::submit(app, vec![prompt], &run.turn.generation, constraints, settings)?;
    let wire = wire(facts);
    if !stream {
        return run.whole(jobs, wire.as_ref()).await;
    }
    jobs.started().await?;
    let (sender, events) = Events::channel();
    tokio::spawn(async move {
        // A client that is gone wants nothing; the jobs end with their stream.
        let _ = run.stream(jobs, wire, sender).await;
    });
    Ok(Reply::events(events))
}

type Constraints = Vec<Option<Box<dyn Constraint>>>;

impl Run {
    /// A constraint for each choice.
    fn constraints(self) -> Result<(Run, Constraints), ApiError> {
        let form = Form {
            engine: &self.app.engine,
            model: &self.model,
            turn: &self.turn,
            start: &self.layout.start,
            prefix: &self.layout.prefix,
        };
        let constraints = (0..self.turn.generation.n).map(|_| form.build()).collect::<Result<_, _>>()?;
        Ok((self, constraints))
    }

    fn settings(&self) -> ChatSettings {
        let reasoning = self.turn.reasoning.format;
        ChatSettings {
            format: self.model.caps.markup.name().to_owned(),
            reasoning_format: reasoning.name().to_owned(),
            reasoning_in_content: reasoning.for_stream(self.turn.generation.stream) != reasoning,
            generation_prompt: String::new(),
            grammar_lazy: self.turn.tools.active() && !self.turn.tools.choice.forces(),
        }
    }

    fn choices(&self) -> Vec<Choice> {
        let Layout { start, prefix, echo, .. } = &self.layout;
        let echo = if self.turn.echo { echo.clone() } else { Vec::new() };
        let choice = |_| Choice::new(self.model.parser(&self.turn, start, prefix), echo.clone());
        (0..self.turn.generation.n).map(choice).collect()
    }

    fn reading<'a>(&'a self, markers: &'a [&'static str]) -> Reading<'a> {
        let params = &self.turn.generation.params;
        let tokenizer = self.app.engine.tokenizer();
        let probs =
            Probs { tokenizer, post_sampling: params.sampling.post_sampling_probs, special: params.special };
        Reading {
            tokenizer,
            generation: &self.turn.generation,
            probs: (params.sampling.n_probs > 0).then_some(probs),
            top_logprobs: self.turn.top_logprobs.unwrap_or(usize::MAX),
            markers,
        }
    }

    /// One object, when all is said.
    async fn whole(&self, mut jobs: Jobs, wire: &dyn Wire) -> Result<Reply, ApiError> {
        let markers = self.model.caps.markup.markers();
        let reading = self.reading(&markers);
        let settings = self.turn.generation.settings(&self.settings(), SettingsForm::Long);
        let mut choices: Vec<(Choice, Option<End>)> =
            self.choices().into_iter().map(|choice| (choice, None)).collect();
        while let Some((index, event)) = jobs.next().await {
            let (choice, end) = &mut choices[index];
            let verbose = |answer: &Answer| self.verbose(&settings, &jobs, index, answer);
            if let Some(Step::End(step)) = choice.take(event, &reading, verbose)? {
                *end = Some(step);
            }
        }
        let unfinished = || ApiError::new(ErrorKind::Server, "a generation ended without a result");
        let whole = |(choice, end): (Choice, Option<End>)| -> Result<Whole, ApiError> {
            Ok(choice.whole(end.ok_or_else(unfinished)?))
        };
        let choices = choices.into_iter().map(whole).collect::<Result<Vec<Whole>, _>>()?;
        Ok(Reply::json(&wire.object(&choices)))
    }

    /// The native route's object, where it is asked for.
    fn verbose(&self, settings: &Value, jobs: &Jobs, index: usize, answer: &Answer) -> Option<Value> {
        let native = Native { app: &self.app, generation: &self.turn.generation, settings };
        self.turn.generation.verbose.then(|| native.last(jobs, index, answer))
    }

    /// Events, as it is said.
    async fn stream(
        self,
        mut jobs: Jobs,
        mut wire: Box<dyn Wire>,
        sender: EventsSender,
    ) -> Result<(), ClientGone> {
        let markers = self.model.caps.markup.markers();
        let reading = self.reading(&markers);
        let settings = self.turn.generation.settings(&self.settings(), SettingsForm::Long);
        let mut choices = self.choices();
        let ping = wire.ping().bytes();
        let mut outlet = Outlet::new(sender, self.turn.generation.ping).with_comment(ping);
        let mut frames = Vec::new();
        while let Some((index, event)) = outlet.next(&mut jobs).await? {
            let verbose = |answer: &Answer| self.verbose(&settings, &jobs, index, answer);
            match choices[index].take(event, &reading, verbose) {
                Ok(Some(step)) => wire.step(index, &step, &mut frames),
                Ok(None) => {}
                Err(error) => return outlet.raw(wire.failed(&error).bytes()).await,
            }
            for frame in frames.drain(..) {
                outlet.raw(frame.bytes()).await?;
            }
        }
        Ok(())
    }
}
