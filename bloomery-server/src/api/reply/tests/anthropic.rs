//! Events of messages.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::{AnthropicWire, anthropic_error as error_body};
use super::super::{Finish, Frame, Wire};
use super::support::{call, content, end, facts, frames, named, reasoning, rich, started, token, whole};
use crate::chat::Delta;
use crate::error::ApiError;

/// One word an event, with its block's index.
fn told(frames: &[Frame]) -> Vec<String> {
    let word = |frame: &Frame| {
        let (name, value) = named(frame);
        let short = name.trim_start_matches("content_block_");
        match value.get("index") {
            Some(index) => format!(
                "{short} {index} {}",
                value["delta"]["type"]
                    .as_str()
                    .or(value["content_block"]["type"].as_str())
                    .unwrap_or_default()
            )
            .trim_end()
            .to_owned(),
            None => name.to_owned(),
        }
    };
    frames.iter().map(word).collect()
}

#[test]
fn blocks_open_and_close_one_after_the_other() {
    let frames = frames(&mut AnthropicWire::new(facts()), &rich());
    assert_eq!(
        told(&frames),
        [
            "message_start",
            "start 0 thinking",
            "delta 0 thinking_delta",
            "delta 0 thinking_delta",
            "delta 0 signature_delta",
            "stop 0",
            "start 1 text",
            "delta 1 text_delta",
            "delta 1 text_delta",
            "stop 1",
            "start 2 tool_use",
            "delta 2 input_json_delta",
            "delta 2 input_json_delta",
            "stop 2",
            "start 3 tool_use",
            "delta 3 input_json_delta",
            "delta 3 input_json_delta",
            "stop 3",
            "message_delta",
            "message_stop",
        ]
    );
    assert_eq!(
        named(&frames[0]).1.to_string(),
        "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_ID\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\
         \"model\":\"demo\",\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"cache_read_input_tokens\":4,\
         \"input_tokens\":6,\"output_tokens\":0,\"cache_creation_input_tokens\":0}}}"
    );
    assert_eq!(
        named(&frames[10]).1,
        &json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "c0", "name": "f", "input": {}}})
    );
    assert_eq!(
        named(&frames[18]).1,
        &json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 9}})
    );
}

/// What an SDK makes of a stream.
fn accumulated(frames: &[Frame]) -> Value {
    let (mut blocks, mut json, mut message) =
        (Vec::<Value>::new(), BTreeMap::<usize, String>::new(), Value::Null);
    for frame in frames {
        let (name, value) = named(frame);
        let index = value["index"].as_u64().unwrap_or_default() as usize;
        let delta = &value["delta"];
        let mut append = |key: &str| {
            let text = format!("{}{}", blocks[index][key].as_str().unwrap(), delta[key].as_str().unwrap());
            blocks[index][key] = json!(text);
        };
        match (name, delta["type"].as_str()) {
            ("message_start", _) => message = value["message"].clone(),
            ("content_block_start", _) => {
                assert_eq!(index, blocks.len());
                blocks.push(value["content_block"].clone());
            }
            (_, Some("text_delta")) => append("text"),
            (_, Some("thinking_delta")) => append("thinking"),
            (_, Some("signature_delta")) => append("signature"),
            (_, Some("input_json_delta")) => {
                json.entry(index).or_default().push_str(delta["partial_json"].as_str().unwrap());
            }
            ("content_block_stop", _) => {
                if let Some(text) = json.get(&index) {
                    blocks[index]["input"] = serde_json::from_str(text).unwrap();
                }
            }
            ("message_delta", _) => {
                message["stop_reason"] = delta["stop_reason"].clone();
                message["stop_sequence"] = delta["stop_sequence"].clone();
                message["usage"]["output_tokens"] = value["usage"]["output_tokens"].clone();
            }
            _ => {}
        }
    }
    message["content"] = json!(blocks);
    message
}

#[test]
fn the_object_says_what_the_stream_says() {
    let no_arguments = vec![
        started(),
        token(
            1,
            vec![
                Delta::ToolStart { index: 0, id: "x".to_owned(), name: "f".to_owned() },
                Delta::ToolEnd { index: 0 },
            ],
        ),
        end(Finish::ToolCalls, vec![]),
    ];
    let stopped = vec![
        started(),
        token(1, vec![content("a")]),
        end(Finish::StopText("END".to_owned()), vec![content("b")]),
    ];
    let again = vec![
        started(),
        token(1, vec![reasoning("a"), content("b")]),
        token(2, call(0, "f", ["{\"k\":\"", "v\"}"])),
        token(3, vec![content("c")]),
        end(Finish::Length, vec![]),
    ];
    for steps in [rich(), no_arguments, stopped, again] {
        let stream = accumulated(&frames(&mut AnthropicWire::new(facts()), &steps));
        assert_eq!(stream, AnthropicWire::new(facts()).object(&[whole(&steps)]));
    }
}

#[test]
fn a_call_that_breaks_is_closed_before_the_text_goes_on() {
    let steps = [
        started(),
        token(1, vec![Delta::ToolStart { index: 0, id: "x".to_owned(), name: "f".to_owned() }]),
        token(2, vec![Delta::ToolBroken { index: 0, raw: "<f".to_owned() }, content("more")]),
        end(Finish::Stop, vec![]),
    ];
    let frames = frames(&mut AnthropicWire::new(facts()), &steps);
    assert_eq!(
        told(&frames)[1..],
        [
            "start 0 tool_use",
            "stop 0",
            "start 1 text",
            "delta 1 text_delta",
            "stop 1",
            "message_delta",
            "message_stop"
        ]
    );
}

#[test]
fn a_cut_call_has_an_empty_input() {
    let steps =
        [started(), token(1, call(0, "f", ["{\"a\":", ""])[..3].to_vec()), end(Finish::Length, vec![])];
    let object = AnthropicWire::new(facts()).object(&[whole(&steps)]);
    assert_eq!(object["content"][0]["input"], json!({}));
    assert_eq!(object["stop_reason"], "max_tokens");
}

#[test]
fn errors_have_the_envelope() {
    let body = error_body(&ApiError::invalid("no"));
    assert_eq!(
        body.to_string(),
        "{\"type\":\"error\",\"error\":{\"code\":400,\"message\":\"no\",\"type\":\"invalid_request_error\"}}"
    );
}
