//! A stream of events on which the client never waits too long for a sign of life.

use std::time::Duration;

use bloomery_core::scheduler::Event;
use bytes::Bytes;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::jobs::Jobs;
use super::reply::Frame;
use crate::http::{ClientGone, EventsSender};

/// The writing half of a reply, with the time of the last write.
#[derive(Debug)]
pub(crate) struct Outlet {
    sender: EventsSender,
    ping: Option<Duration>,
    comment: Bytes,
    last: Instant,
}

impl Outlet {
    /// Writes a comment after every silence of `ping`.
    pub(crate) fn new(sender: EventsSender, ping: Option<Duration>) -> Self {
        Self { sender, ping, comment: Frame::Comment.bytes(), last: Instant::now() }
    }

    /// Writes this in place of the comment.
    pub(crate) fn with_comment(self, comment: Bytes) -> Self {
        Self { comment, ..self }
    }

    /// Sends `data: {json}`.
    pub(crate) async fn data(&mut self, value: &Value) -> Result<(), ClientGone> {
        self.sender.data(value).await?;
        self.wrote()
    }

    /// Sends what is framed already.
    pub(crate) async fn raw(&mut self, bytes: Bytes) -> Result<(), ClientGone> {
        self.sender.raw(bytes).await?;
        self.wrote()
    }

    /// The next event of the jobs, or that the client is gone. Meanwhile the client gets its comments.
    pub(crate) async fn next(&mut self, jobs: &mut Jobs) -> Result<Option<(usize, Event)>, ClientGone> {
        loop {
            let silence = self.ping.map(|ping| self.last + ping);
            tokio::select! {
                biased;
                () = self.sender.closed() => return Err(ClientGone),
                event = jobs.next() => return Ok(event),
                () = until(silence) => self.raw(self.comment.clone()).await?,
            }
        }
    }

    fn wrote(&mut self) -> Result<(), ClientGone> {
        self.last = Instant::now();
        Ok(())
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
