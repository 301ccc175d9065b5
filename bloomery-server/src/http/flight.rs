//! Whether a connection has a request in work.

use tokio::sync::watch;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It waits for the head of a request.
    Idle,
    /// It reads a body.
    Reading,
    /// Somebody works on the answer.
    Answering,
}

/// Set by the requests of a connection, watched by the connection.
#[derive(Debug, Clone)]
pub(super) struct Flight(watch::Sender<State>);

/// One request. When it is dropped the connection is idle again.
#[derive(Debug)]
pub(super) struct Guard(watch::Sender<State>);

impl Flight {
    pub(super) fn new() -> (Self, watch::Receiver<State>) {
        let (sender, receiver) = watch::channel(State::Idle);
        (Self(sender), receiver)
    }

    /// A request has arrived.
    pub(super) fn begin(&self) -> Guard {
        self.0.send_replace(State::Reading);
        Guard(self.0.clone())
    }
}

impl Guard {
    /// The body is there.
    pub(super) fn answering(&self) {
        self.0.send_replace(State::Answering);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.send_replace(State::Idle);
    }
}
