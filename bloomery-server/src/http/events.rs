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

/// An event as it goes over the wire: `event: NAME` if it has one, and `data: {json}`. JSON escapes line breaks, so the payload
/// is one line.
#[must_use]
pub fn framed(name: Option<&str>, value: &Value) -> Bytes {
    let mut out = Vec::with_capacity(512);
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    serde_json::to_writer(&mut out, value).expect("memory takes all, and keys of a value are texts");
    out.extend_from_slice(b"\n\n");
    out.into()
}

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
        self.raw(framed(None, value)).await
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
