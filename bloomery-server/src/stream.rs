//! From the scheduler's thread to a request's task.

use bloomery_core::EngineError;
use bloomery_core::scheduler::{Event, Job, Scheduler, Sink, SinkState};
use tokio::sync::mpsc;

use crate::logs;

/// Events that may wait for a request's task. A step sends at most three, so a job is paused in time.
const BACKLOG: usize = 64;

/// Events of one step.
const PER_STEP: usize = 4;

/// The events of one job. Dropping it cancels the job.
#[derive(Debug)]
pub struct JobStream(mpsc::Receiver<Event>);

impl JobStream {
    /// The next event; `None` after the last.
    pub async fn next(&mut self) -> Option<Event> {
        let event = self.0.recv().await;
        if let Some(Event::Done(outcome)) = &event {
            logs::done(&outcome.progress);
        }
        event
    }

    /// Submits a job whose events arrive here. `build` gets the sink.
    ///
    /// # Errors
    /// Those of [`Scheduler::submit`].
    pub fn submit(
        scheduler: &Scheduler,
        build: impl FnOnce(Box<dyn Sink>) -> Job,
    ) -> Result<Self, EngineError> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        scheduler.submit(build(Box::new(ChannelSink(sender))))?;
        Ok(Self(receiver))
    }
}

struct ChannelSink(mpsc::Sender<Event>);

impl Sink for ChannelSink {
    fn state(&self) -> SinkState {
        if self.0.is_closed() {
            SinkState::Closed
        } else if self.0.capacity() < PER_STEP {
            SinkState::Full
        } else {
            SinkState::Open
        }
    }

    fn send(&mut self, event: Event) {
        // A full channel cannot be: the state is asked before every step. A closed one is noticed at the next step.
        let _ = self.0.try_send(event);
    }
}
