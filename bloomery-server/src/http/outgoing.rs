//! The body of a reply on its way out.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::Events;
use super::flight::Guard;
use super::phase::Wait;

/// The body of a reply.
pub(super) enum Outgoing {
    /// All at once; `None` once it is sent.
    Whole(Option<Bytes>),
    /// Events. The last one says that the server stops, if it does.
    Events {
        /// `None` after the end.
        events: Option<(Events, Guard)>,
        stop: Wait,
        last: Bytes,
    },
}

impl Outgoing {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self::Whole((!bytes.is_empty()).then_some(bytes))
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Self::Whole(bytes) => bytes.take(),
            Self::Events { events, stop, last } => {
                let Some((source, _)) = events else { return Poll::Ready(None) };
                if stop.as_mut().poll(cx).is_ready() {
                    *events = None;
                    Some(std::mem::take(last))
                } else {
                    let frame = ready!(Pin::new(source).poll_frame(cx));
                    if frame.is_none() {
                        *events = None;
                    }
                    return Poll::Ready(frame);
                }
            }
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None) | Self::Events { events: None, .. })
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Events { .. } => SizeHint::default(),
        }
    }
}
