//! Hidden states from the scheduler's thread to the thread that reads them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bloomery_core::scheduler::{Event, Job, Outcome, Pooling, Scheduler, Sink, SinkState};
use bloomery_core::{EngineError, Params};
use tokio::sync::mpsc;

/// Parts of a prompt that may wait to be read: each has the hidden states of a step.
const BACKLOG: usize = 12;
/// Events of one step.
const PER_STEP: usize = 4;

/// The hidden states of one prompt, part by part. Waiting for one blocks.
pub(super) struct Rows {
    events: mpsc::Receiver<Event>,
    /// Rows that were given out.
    given: usize,
    width: usize,
    end: Option<Result<Outcome, EngineError>>,
    /// When the last part arrived.
    done: Option<Instant>,
}

/// Ends the job when it is dropped.
pub(super) struct Ticket(Arc<AtomicBool>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct RowSink {
    events: mpsc::Sender<Event>,
    dropped: Arc<AtomicBool>,
}

impl Sink for RowSink {
    fn state(&self) -> SinkState {
        if self.dropped.load(Ordering::Relaxed) || self.events.is_closed() {
            SinkState::Closed
        } else if self.events.capacity() < PER_STEP {
            SinkState::Full
        } else {
            SinkState::Open
        }
    }

    fn send(&mut self, event: Event) {
        // A full channel cannot be: the state is asked before every step. A closed one is noticed at the next step.
        let _ = self.events.try_send(event);
    }
}

impl Rows {
    /// Queues a prompt. Dropping the ticket ends its job.
    pub(super) fn submit(scheduler: &Scheduler, tokens: Vec<u32>) -> Result<(Self, Ticket), EngineError> {
        let (sender, events) = mpsc::channel(BACKLOG);
        let dropped = Arc::new(AtomicBool::new(false));
        let sink = RowSink { events: sender, dropped: Arc::clone(&dropped) };
        let job = Job::new(tokens, Params::default(), Box::new(sink));
        scheduler.submit(Job { embed: Some(Pooling::Parts), ..job })?;
        let width = scheduler.engine().model().hidden;
        Ok((Self { events, given: 0, width, end: None, done: None }, Ticket(dropped)))
    }

    /// How the job ended, and when its last hidden state arrived.
    pub(super) fn finish(mut self) -> Result<(Outcome, Option<Instant>), EngineError> {
        while self.end.is_none() && self.next().is_some() {}
        let end = self.end.unwrap_or(Err(EngineError::Stopped));
        Ok((end?, self.done))
    }
}

impl Iterator for &mut Rows {
    type Item = Vec<f32>;

    fn next(&mut self) -> Option<Vec<f32>> {
        Rows::next(self)
    }
}

impl Rows {
    fn next(&mut self) -> Option<Vec<f32>> {
        if self.end.is_some() {
            return None;
        }
        loop {
            match self.events.blocking_recv() {
                Some(Event::Rows { first, mut rows }) => {
                    // A job that had to give its memory away computes some rows again.
                    let known = (self.given.saturating_sub(first) * self.width).min(rows.len());
                    rows.drain(..known);
                    self.given += rows.len() / self.width;
                    self.done = Some(Instant::now());
                    return Some(rows);
                }
                Some(Event::Done(outcome)) => {
                    self.end = Some(Ok(outcome));
                    return None;
                }
                Some(Event::Failed(error)) => {
                    self.end = Some(Err(error));
                    return None;
                }
                Some(_) => {}
                None => {
                    self.end = Some(Err(EngineError::Stopped));
                    return None;
                }
            }
        }
    }
}
