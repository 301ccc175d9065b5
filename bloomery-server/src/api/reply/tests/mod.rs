//! What the wire formats make of one and the same reply.

mod anthropic;
mod openai;
mod responses;
mod support;

use serde_json::json;

use super::{AnthropicWire, ChatWire, Frame, ResponsesWire, Wire};
use crate::error::ApiError;
use support::facts;

#[test]
fn streams_break_off_and_wait_in_the_words_of_their_api() {
    let error = ApiError::invalid("no");
    let text = |frame: Frame| String::from_utf8(frame.bytes().to_vec()).unwrap();
    let wires: [(Box<dyn Wire>, &str); 2] =
        [(Box::new(ChatWire::new(facts())), "data: "), (Box::new(ResponsesWire::new(facts())), "data: ")];
    for (wire, start) in wires {
        assert_eq!(text(wire.failed(&error)), format!("{start}{}\n\n", error.body()));
        assert_eq!(text(wire.ping()), ":\n\n");
    }
    let wire = AnthropicWire::new(facts());
    assert_eq!(text(wire.ping()), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    let failed = text(wire.failed(&error));
    assert!(
        failed.starts_with("event: error\ndata: {\"type\":\"error\",\"error\":{\"code\":400,"),
        "{failed}"
    );
    assert_eq!(error.body()["error"]["message"], json!("no"));
}
