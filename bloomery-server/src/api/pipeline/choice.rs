//! One reply of a request while it comes.

use bloomery_core::StopReason;
use bloomery_core::scheduler::{Event, Outcome};
use bloomery_core::tokenizer::Tokenizer;
use serde_json::Value;

use crate::api::answer::Answer;
use crate::api::generation::Generation;
use crate::api::probs::Probs;
use crate::api::reply::{End, Finish, Message, Step, Whole};
use crate::chat::{Delta, OutputParser};
use crate::error::ApiError;

/// What the choices of a request have in common.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) generation: &'a Generation,
    /// Tells probabilities, where they are asked for.
    pub(super) probs: Option<Probs<'a>>,
    /// Alternatives with each token.
    pub(super) top_logprobs: usize,
    /// Control tokens that belong to the markup of replies.
    pub(super) markers: &'a [&'static str],
}

/// A reply, as far as it is.
#[derive(Debug)]
pub(super) struct Choice {
    parser: OutputParser,
    message: Message,
    /// The same before it is read.
    answer: Answer,
    /// Pieces that the reply begins with.
    echo: Vec<Delta>,
    /// The spelling of the token that ended the reply, where control tokens are spelled.
    ending: Option<String>,
}

impl Choice {
    pub(super) fn new(parser: OutputParser, echo: Vec<Delta>) -> Choice {
        Choice { parser, message: Message::default(), answer: Answer::default(), echo, ending: None }
    }

    /// What an event means for the reply. `verbose` makes the native object at the end.
    pub(super) fn take(
        &mut self,
        event: Event,
        reading: &Reading<'_>,
        verbose: impl FnOnce(&Answer) -> Option<Value>,
    ) -> Result<Option<Step>, ApiError> {
        Ok(Some(match event {
            Event::Started { cached, .. } => Step::Started { cached },
            Event::Prompt(progress) => Step::Prompt(progress),
            Event::Token(token) => {
                let probs = reading.probs.as_ref().map(|probs| probs.entry(&token.sampled));
                let probs = probs.map(|entry| shortened(entry, reading.top_logprobs));
                let id = token.sampled.id;
                self.answer.tokens.push(id);
                self.answer.content.push_str(&token.text);
                self.answer.probs.extend(probs.clone());
                if reading.tokenizer.is_end_of_generation(id) {
                    let piece = reading.tokenizer.piece(id).filter(|piece| !reading.markers.contains(piece));
                    self.ending = piece.map(str::to_owned);
                }
                let text = self.without_ending(&token.text);
                let deltas = self.parser.push(text);
                Step::Token { deltas: self.add(deltas), probs, progress: token.progress }
            }
            Event::Done(outcome) => {
                let (deltas, finish) = self.end(&outcome, reading);
                let progress = outcome.progress;
                self.answer.progress = progress;
                self.answer.content.push_str(&outcome.text);
                self.answer.end = Some(outcome);
                self.answer.cut_stop_text(reading.generation, reading.tokenizer);
                Step::End(End { deltas, finish, progress, verbose: verbose(&self.answer) })
            }
            Event::Failed(error) => return Err(error.into()),
            _ => return Ok(None),
        }))
    }

    /// The text without the token that ended it: that one is not for the reader.
    fn without_ending<'t>(&self, text: &'t str) -> &'t str {
        let ending = self.ending.as_deref().unwrap_or_default();
        if ending.is_empty() { text } else { text.strip_suffix(ending).unwrap_or(text) }
    }

    fn end(&mut self, outcome: &Outcome, reading: &Reading<'_>) -> (Vec<Delta>, Finish) {
        let text = self.without_ending(&outcome.text);
        let mut deltas = self.parser.push(text);
        deltas.extend(self.parser.finish());
        let deltas = self.add(deltas);
        let stop = outcome.stop.and_then(|stop| reading.generation.params.stop.get(stop)).cloned();
        let finish = match outcome.reason {
            StopReason::End | StopReason::StopText if self.message.has_call() => Finish::ToolCalls,
            StopReason::End => Finish::Stop,
            StopReason::StopText => stop.map_or(Finish::Stop, Finish::StopText),
            _ => Finish::Length,
        };
        (deltas, finish)
    }

    /// Keeps what was said, and gives it back.
    fn add(&mut self, deltas: Vec<Delta>) -> Vec<Delta> {
        let mut all = std::mem::take(&mut self.echo);
        all.extend(deltas);
        all.iter().for_each(|delta| self.message.push(delta));
        all
    }

    /// The whole reply.
    pub(super) fn whole(mut self, end: End) -> Whole {
        if end.finish != Finish::Length {
            // The model ended its turn inside a call: nobody can run it.
            self.message.drop_incomplete();
        }
        Whole {
            message: self.message,
            probs: self.answer.probs,
            finish: end.finish,
            progress: end.progress,
            verbose: end.verbose,
        }
    }
}

/// An entry of probabilities with this many alternatives. The sampler tells one at least.
fn shortened(mut entry: Value, top: usize) -> Value {
    for name in ["top_logprobs", "top_probs"] {
        if let Some(list) = entry.get_mut(name).and_then(Value::as_array_mut) {
            list.truncate(top);
        }
    }
    entry
}
