//! What one job has said so far.

use bloomery_core::StopReason;
use bloomery_core::scheduler::{Event, Outcome, Progress};
use bloomery_core::tokenizer::{Specials, Tokenizer};
use serde_json::Value;

use super::generation::Generation;
use super::probs::Probs;
use crate::error::ApiError;

/// The text of a job, its tokens and their probabilities, and how it ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    /// The text.
    pub(crate) content: String,
    /// All tokens.
    pub(crate) tokens: Vec<u32>,
    /// One entry a token, where they were asked for.
    pub(crate) probs: Vec<Value>,
    /// How far it is.
    pub(crate) progress: Progress,
    /// How it ended.
    pub(crate) end: Option<Outcome>,
}

impl Answer {
    /// Takes in an event.
    ///
    /// # Errors
    /// That of a job that failed.
    pub(crate) fn take(&mut self, event: Event, probs: Option<&Probs<'_>>) -> Result<(), ApiError> {
        match event {
            Event::Started { cached, .. } => self.progress.cached = cached,
            Event::Prompt(progress) => self.progress = progress,
            Event::Token(token) => {
                self.progress = token.progress;
                self.content.push_str(&token.text);
                self.tokens.push(token.sampled.id);
                self.probs.extend(probs.map(|probs| probs.entry(&token.sampled)));
            }
            Event::Done(outcome) => {
                self.progress = outcome.progress;
                self.content.push_str(&outcome.text);
                self.end = Some(outcome);
            }
            Event::Failed(error) => return Err(error.into()),
            _ => {}
        }
        Ok(())
    }

    /// Leaves out the entries of the text that ended the generation, which the content does not have either.
    pub(crate) fn cut_stop_text(&mut self, generation: &Generation, tokenizer: &Tokenizer) {
        let text = stop_text(self.end.as_ref(), generation);
        if !text.is_empty() {
            let cut = tokenizer.encode(text, Specials::AsText).map_or(0, |tokens| tokens.len());
            self.probs.truncate(self.probs.len().saturating_sub(cut));
        }
    }
}

/// The text that ended a generation; empty where none did.
pub(crate) fn stop_text<'a>(end: Option<&Outcome>, generation: &'a Generation) -> &'a str {
    let stop = end.and_then(|end| end.stop).and_then(|stop| generation.params.stop.get(stop));
    stop.map_or("", String::as_str)
}

/// `stop_type` of the native answer.
pub(crate) fn stop_type(reason: StopReason) -> &'static str {
    match reason {
        StopReason::End => "eos",
        StopReason::StopText => "word",
        StopReason::MaxTokens | StopReason::ContextFull => "limit",
        _ => "none",
    }
}

/// `finish_reason` of OpenAI's answers without tools.
pub(crate) fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::End | StopReason::StopText => "stop",
        _ => "length",
    }
}
