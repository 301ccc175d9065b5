//! Answers that are being written, in the order of the input.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};

use bloomery_core::scheduler::{Event, Outcome, Sink, SinkState};
use bloomery_core::{EngineError, StopReason};
use serde_json::{Value, json};

/// One answer.
pub(crate) struct Answer {
    /// Of its line in the input, from 1.
    pub(crate) number: usize,
    /// The line's bytes.
    pub(crate) bytes: u64,
    id: String,
    text: String,
    outcome: Option<Outcome>,
}

impl Answer {
    pub(crate) fn new(number: usize, bytes: u64, id: String) -> Self {
        Self { number, bytes, id, text: String::new(), outcome: None }
    }

    /// Its line in the output, once it has ended.
    pub(crate) fn record(&self) -> Option<Value> {
        let outcome = self.outcome.as_ref()?;
        let reason = match outcome.reason {
            StopReason::End => "end",
            StopReason::MaxTokens => "max_tokens",
            StopReason::ContextFull => "context_full",
            _ => "stopped",
        };
        let tokens = outcome.progress.generated;
        Some(json!({"id": self.id, "text": self.text, "reason": reason, "tokens": tokens}))
    }
}

/// What is open, oldest first, and the channel on which its events arrive.
pub(crate) struct Answers {
    open: VecDeque<Answer>,
    sender: Sender<(usize, Event)>,
    events: Receiver<(usize, Event)>,
}

impl Answers {
    pub(crate) fn new() -> Self {
        let (sender, events) = mpsc::channel();
        Self { open: VecDeque::new(), sender, events }
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Where the events of a line's job go.
    pub(crate) fn sink(&self, number: usize) -> Box<dyn Sink> {
        Box::new(Outlet(number, self.sender.clone()))
    }

    pub(crate) fn push(&mut self, answer: Answer) {
        self.open.push_back(answer);
    }

    /// Waits for an event. Returns the oldest answer if that has ended; younger ones wait for it.
    pub(crate) fn next(&mut self) -> Result<Option<Answer>, EngineError> {
        let ended = |open: &VecDeque<Answer>| open.front().is_some_and(|answer| answer.outcome.is_some());
        if !ended(&self.open) {
            let (number, event) = self.events.recv().map_err(|_| EngineError::Stopped)?;
            let index = self.open.binary_search_by_key(&number, |answer| answer.number);
            if let Some(answer) = index.ok().and_then(|index| self.open.get_mut(index)) {
                match event {
                    Event::Token(token) => answer.text += &token.text,
                    Event::Done(outcome) => {
                        answer.text += &outcome.text;
                        answer.outcome = Some(outcome);
                    }
                    Event::Failed(error) => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(if ended(&self.open) { self.open.pop_front() } else { None })
    }
}

/// Sends the events of one line. The channel has no bound: whoever reads it is faster than any model.
struct Outlet(usize, Sender<(usize, Event)>);

impl Sink for Outlet {
    fn state(&self) -> SinkState {
        SinkState::Open
    }

    fn send(&mut self, event: Event) {
        // Nobody reads when the program is about to end with an error.
        let _ = self.1.send((self.0, event));
    }
}
