//! Server-sent events before they are bytes.

use serde_json::Value;

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
    /// Appends the frame as it goes over the wire. JSON escapes line breaks, so a payload is one line.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Frame::Data(value) => {
                out.push_str("data: ");
                out.push_str(&value.to_string());
            }
            Frame::Event(name, value) => {
                out.push_str("event: ");
                out.push_str(name);
                out.push_str("\ndata: ");
                out.push_str(&value.to_string());
            }
            Frame::Done => out.push_str("data: [DONE]"),
            Frame::Comment => out.push(':'),
        }
        out.push_str("\n\n");
    }

    /// Several frames as one piece of text.
    pub(crate) fn text(frames: &[Frame]) -> String {
        let mut out = String::new();
        frames.iter().for_each(|frame| frame.write(&mut out));
        out
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Frame;

    #[test]
    fn every_frame_ends_with_a_blank_line() {
        let frames =
            [Frame::Data(json!({"a": "x\ny"})), Frame::Event("ping", json!({})), Frame::Comment, Frame::Done];
        assert_eq!(
            Frame::text(&frames),
            "data: {\"a\":\"x\\ny\"}\n\nevent: ping\ndata: {}\n\n:\n\ndata: [DONE]\n\n"
        );
    }
}
