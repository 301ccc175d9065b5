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
