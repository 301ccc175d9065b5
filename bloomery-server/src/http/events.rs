//! A stream of server-sent events with a bounded backlog.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use serde_json::Value;
use tokio::sync::mpsc;

/// Events that may wait for a slow client before the writer has to.
const BACKLOG: usize = 32;

/// The receiving half: the body of a reply. Dropped when the client is gone.
#[derive(Debug)]
pub struct Events(mpsc::Receiver<Bytes>);

/// The writing half.
#[derive(Debug, Clone)]
pub struct EventsSender(mpsc::Sender<Bytes>);

/// The client of a stream has gone away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client is gone")]
pub struct ClientGone;

impl Events {
    /// Both halves.
    #[must_use]
    pub fn channel() -> (EventsSender, Self) {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        (EventsSender(sender), Self(receiver))
    }
}

impl EventsSender {
    /// Sends `data: {json}`; waits where the client is slow.
    pub async fn data(&self, value: &Value) -> Result<(), ClientGone> {
        self.raw(format!("data: {value}\n\n")).await
    }

    /// Sends `event: NAME` and `data: {json}`.
    pub async fn event(&self, name: &str, value: &Value) -> Result<(), ClientGone> {
        self.raw(format!("event: {name}\ndata: {value}\n\n")).await
    }

    /// Sends text that is framed already: one event or several, each with its blank line.
    pub async fn raw(&self, text: impl Into<Bytes>) -> Result<(), ClientGone> {
        self.0.send(text.into()).await.map_err(|_| ClientGone)
    }

    /// Returns when the client has gone away.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
