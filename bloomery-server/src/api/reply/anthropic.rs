//! Messages: named events, one content block at a time, or one `message`.

use serde_json::{Map, Value, json};

use super::message::Part;
use super::{End, Facts, Finish, Frame, Step, Usage, Whole, Wire};
use crate::chat::Delta;
use crate::error::ApiError;

/// See the [module](self). A reply has one choice.
#[derive(Debug)]
pub(crate) struct AnthropicWire {
    facts: Facts,
    open: Option<Block>,
    /// Blocks that were opened.
    blocks: usize,
}

/// What the open block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    /// The call with this index.
    Call(usize),
    /// A call that turned out to be none; nothing more goes in.
    Broken,
}

impl AnthropicWire {
    pub(crate) fn new(facts: Facts) -> AnthropicWire {
        AnthropicWire { facts, open: None, blocks: 0 }
    }

    fn message(&self, content: Value, stop: (Value, Value), usage: Value) -> Value {
        let (stop_reason, stop_sequence) = stop;
        json!({
            "id": format!("msg_{}", self.facts.id),
            "type": "message",
            "role": "assistant",
            "content": content,
            "model": self.facts.model,
            "stop_reason": stop_reason,
            "stop_sequence": stop_sequence,
            "usage": usage,
        })
    }

    fn delta(&mut self, delta: &Delta, out: &mut Vec<Frame>) {
        match delta {
            Delta::Reasoning(text) | Delta::Content(text) if text.is_empty() => {}
            Delta::Reasoning(text) => {
                self.enter(
                    Block::Thinking,
                    || json!({ "type": "thinking", "thinking": "", "signature": "" }),
                    out,
                );
                self.add(json!({ "type": "thinking_delta", "thinking": text }), out);
            }
            Delta::Content(text) => {
                self.enter(Block::Text, || json!({ "type": "text", "text": "" }), out);
                self.add(json!({ "type": "text_delta", "text": text }), out);
            }
            Delta::ToolStart { index, id, name } => {
                let start = || json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                self.enter(Block::Call(*index), start, out);
            }
            Delta::ToolArguments { index, fragment } => {
                if self.open == Some(Block::Call(*index)) && !fragment.is_empty() {
                    self.add(json!({ "type": "input_json_delta", "partial_json": fragment }), out);
                }
            }
            Delta::ToolEnd { index } => {
                if self.open == Some(Block::Call(*index)) {
                    self.leave(out);
                }
            }
            Delta::ToolBroken { .. } => self.open = self.open.map(|_| Block::Broken),
        }
    }

    /// Makes a block the open one.
    fn enter(&mut self, block: Block, start: impl FnOnce() -> Value, out: &mut Vec<Frame>) {
        if self.open == Some(block) {
            return;
        }
        self.leave(out);
        out.push(event("content_block_start", json!({ "index": self.blocks, "content_block": start() })));
        self.open = Some(block);
        self.blocks += 1;
    }

    fn add(&self, delta: Value, out: &mut Vec<Frame>) {
        out.push(event("content_block_delta", json!({ "index": self.blocks - 1, "delta": delta })));
    }

    fn leave(&mut self, out: &mut Vec<Frame>) {
        let Some(block) = self.open.take() else { return };
        if block == Block::Thinking {
            // Real signatures prove where thinking comes from. Local models have nothing to prove, but SDKs wait for it.
            self.add(json!({ "type": "signature_delta", "signature": "" }), out);
        }
        out.push(event("content_block_stop", json!({ "index": self.blocks - 1 })));
    }

    fn end(&mut self, end: &End, out: &mut Vec<Frame>) {
        end.deltas.iter().for_each(|delta| self.delta(delta, out));
        self.leave(out);
        let (stop_reason, stop_sequence) = stop(&end.finish);
        let delta = json!({ "stop_reason": stop_reason, "stop_sequence": stop_sequence });
        let usage = json!({ "output_tokens": end.progress.generated });
        out.push(event("message_delta", json!({ "delta": delta, "usage": usage })));
        out.push(event("message_stop", json!({})));
    }
}

impl Wire for AnthropicWire {
    fn step(&mut self, _choice: usize, step: &Step, out: &mut Vec<Frame>) {
        match step {
            Step::Started { cached } => {
                let usage = Usage::cached(self.facts.prompt, *cached);
                let message = self.message(json!([]), (Value::Null, Value::Null), usage.messages());
                out.push(event("message_start", json!({ "message": message })));
            }
            Step::Prompt(_) => {}
            Step::Token { deltas, .. } => deltas.iter().for_each(|delta| self.delta(delta, out)),
            Step::End(end) => self.end(end, out),
        }
    }

    fn object(&self, choices: &[Whole]) -> Value {
        let choice = &choices[0];
        let blocks: Vec<Value> = choice.message.parts.iter().map(block).collect();
        let mut usage = Usage::new(self.facts.prompt);
        usage.add(&choice.progress);
        self.message(json!(blocks), stop(&choice.finish), usage.messages())
    }

    fn failed(&self, error: &ApiError) -> Frame {
        Frame::Event("error", error_body(error))
    }

    fn ping(&self) -> Frame {
        event("ping", json!({}))
    }
}

/// An error in this API's envelope: `{"type": "error", "error": {...}}`.
pub(crate) fn error_body(error: &ApiError) -> Value {
    let mut body = json!({ "type": "error" });
    body["error"] = error.body()["error"].take();
    body
}

/// An event whose data begins with its name.
fn event(name: &'static str, data: Value) -> Frame {
    let mut fields = Map::new();
    fields.insert("type".to_owned(), json!(name));
    if let Value::Object(data) = data {
        fields.extend(data);
    }
    Frame::Event(name, Value::Object(fields))
}

fn stop(finish: &Finish) -> (Value, Value) {
    match finish {
        Finish::Stop => (json!("end_turn"), Value::Null),
        Finish::StopText(text) => (json!("stop_sequence"), json!(text)),
        Finish::Length => (json!("max_tokens"), Value::Null),
        Finish::ToolCalls => (json!("tool_use"), Value::Null),
    }
}

fn block(part: &Part) -> Value {
    match part {
        Part::Reasoning(text) => json!({ "type": "thinking", "thinking": text, "signature": "" }),
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Call(call) => {
            // A call that was cut off has no object yet.
            let input = serde_json::from_str(&call.arguments).ok().filter(Value::is_object);
            let input = input.unwrap_or_else(|| json!({}));
            json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::super::testing::{
        call, content, end, facts, frames, named, reasoning, rich, started, token, whole,
    };
    use super::super::{Finish, Frame, Wire};
    use super::{AnthropicWire, error_body};
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
                let text =
                    format!("{}{}", blocks[index][key].as_str().unwrap(), delta[key].as_str().unwrap());
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
}
