//! Server-sent events before they are bytes.

use bytes::Bytes;
use serde_json::Value;

use crate::http::framed;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    /// `data: {json}`.
    Data(Value),
    /// `event: NAME` and `data: {json}`.
    Event(&'static str, Value),
    /// `data: [DONE]`.
    Done,
    /// A comment, which only shows that the connection lives.
    Comment,
}

impl Frame {
    /// The frame as it goes over the wire.
    pub(crate) fn bytes(&self) -> Bytes {
        match self {
            Frame::Data(value) => framed(None, value),
            Frame::Event(name, value) => framed(Some(name), value),
            Frame::Done => Bytes::from_static(b"data: [DONE]\n\n"),
            Frame::Comment => Bytes::from_static(b":\n\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Frame;

    #[test]
    fn every_frame_ends_with_a_blank_line() {
        let frames = [
            (Frame::Data(json!({"a": "x\ny"})), "data: {\"a\":\"x\\ny\"}\n\n"),
            (Frame::Event("ping", json!({})), "event: ping\ndata: {}\n\n"),
            (Frame::Comment, ":\n\n"),
            (Frame::Done, "data: [DONE]\n\n"),
        ];
        for (frame, text) in frames {
            assert_eq!(frame.bytes(), text);
        }
    }
}
