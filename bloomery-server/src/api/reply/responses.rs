//! Responses: named events that build up output items, or one `response`.

use std::mem;

use serde_json::{Map, Value, json};

use super::message::{Call, Message, Part};
use super::{End, Facts, Finish, Frame, Step, Usage, Whole, Wire};
use crate::api::ids;
use crate::api::timings::{prompt_progress, timings};
use crate::chat::Delta;

/// See the [module](self). A reply has one choice.
#[derive(Debug)]
pub(crate) struct ResponsesWire {
    facts: Facts,
    /// Numbers the events.
    sequence: u64,
    /// The item that is being written.
    open: Option<Item>,
    /// Items that are complete.
    output: Vec<Value>,
}

/// An output item.
#[derive(Debug, Clone)]
struct Item {
    id: String,
    part: Part,
}

impl Item {
    fn new(part: Part) -> Item {
        let id = match &part {
            Part::Reasoning(_) => format!("rs_{}", ids::random(32)),
            Part::Text(_) => format!("msg_{}", ids::random(32)),
            Part::Call(call) => format!("fc_{}", call.id),
        };
        Item { id, part }
    }

    /// The item as it appears: without content.
    fn begun(&self) -> Value {
        let empty = match &self.part {
            Part::Call(call) => Part::Call(Call { arguments: String::new(), ..call.clone() }),
            Part::Reasoning(_) => Part::Reasoning(String::new()),
            Part::Text(_) => Part::Text(String::new()),
        };
        let mut item = Item { id: self.id.clone(), part: empty }.json("in_progress");
        if item.get("content").is_some() {
            item["content"] = json!([]);
        }
        item
    }

    fn json(&self, status: &str) -> Value {
        match &self.part {
            Part::Reasoning(text) => json!({
                "id": self.id,
                "summary": [],
                "type": "reasoning",
                "content": [{ "type": "reasoning_text", "text": text }],
                "encrypted_content": "",
                "status": status,
            }),
            Part::Text(text) => json!({
                "content": [text_part(text)],
                "id": self.id,
                "role": "assistant",
                "status": status,
                "type": "message",
            }),
            Part::Call(call) => json!({
                "id": self.id,
                "type": "function_call",
                "status": status,
                "arguments": call.arguments,
                "call_id": call_id(&call.id),
                "name": call.name,
            }),
        }
    }

    /// Whether a piece belongs to this item.
    fn takes(&self, delta: &Delta) -> bool {
        match (&self.part, delta) {
            (Part::Reasoning(_), Delta::Reasoning(_)) | (Part::Text(_), Delta::Content(_)) => true,
            (
                Part::Call(call),
                Delta::ToolArguments { index, .. }
                | Delta::ToolEnd { index }
                | Delta::ToolBroken { index, .. },
            ) => call.index == *index,
            _ => false,
        }
    }
}

impl ResponsesWire {
    pub(crate) fn new(facts: Facts) -> ResponsesWire {
        ResponsesWire { facts, sequence: 0, open: None, output: Vec::new() }
    }

    /// An event whose data begins with its name.
    fn event(&mut self, name: &'static str, data: Value) -> Frame {
        let mut fields = Map::new();
        fields.insert("type".to_owned(), json!(name));
        if let Value::Object(data) = data {
            fields.extend(data);
        }
        fields.insert("sequence_number".to_owned(), json!(self.sequence));
        self.sequence += 1;
        Frame::Event(name, Value::Object(fields))
    }

    fn id(&self) -> String {
        format!("resp_{}", self.facts.id)
    }

    /// The response while there is none.
    fn in_progress(&self) -> Value {
        json!({
            "response": {
                "id": self.id(),
                "object": "response",
                "created_at": self.facts.created,
                "status": "in_progress",
                "model": self.facts.model,
                "output": [],
            },
        })
    }

    /// Where the open item is.
    fn place(&self, item: &Item) -> Value {
        let mut place = json!({ "item_id": item.id, "output_index": self.output.len() });
        if !matches!(item.part, Part::Call(_)) {
            place["content_index"] = json!(0);
        }
        place
    }

    /// An event about what the open item holds.
    fn about(&mut self, item: &Item, name: &'static str, data: Value) -> Frame {
        let mut place = self.place(item);
        if let (Value::Object(place), Value::Object(data)) = (&mut place, data) {
            place.extend(data);
        }
        self.event(name, place)
    }

    fn delta(&mut self, delta: &Delta, out: &mut Vec<Frame>) {
        let part = match delta {
            Delta::Reasoning(text) | Delta::Content(text) if text.is_empty() => return,
            Delta::Reasoning(_) => Some(Part::Reasoning(String::new())),
            Delta::Content(_) => Some(Part::Text(String::new())),
            Delta::ToolStart { index, id, name } => Some(Part::Call(Call {
                index: *index,
                id: id.clone(),
                name: name.clone(),
                arguments: String::new(),
                complete: false,
            })),
            _ => None,
        };
        let taken = self.open.as_ref().is_some_and(|item| item.takes(delta));
        if let Some(part) = part.filter(|_| !taken) {
            self.close(out);
            self.begin(part, out);
        }
        let Some(mut item) = self.open.take() else { return };
        match (&mut item.part, delta) {
            (Part::Reasoning(part), Delta::Reasoning(text)) => {
                part.push_str(text);
                out.push(self.about(&item, "response.reasoning_text.delta", json!({ "delta": text })));
            }
            (Part::Text(part), Delta::Content(text)) => {
                part.push_str(text);
                let data = json!({ "delta": text, "logprobs": [] });
                out.push(self.about(&item, "response.output_text.delta", data));
            }
            (Part::Call(call), Delta::ToolArguments { index, fragment })
                if call.index == *index && !fragment.is_empty() =>
            {
                call.arguments.push_str(fragment);
                let data = json!({ "delta": fragment });
                out.push(self.about(&item, "response.function_call_arguments.delta", data));
            }
            (Part::Call(call), Delta::ToolEnd { index }) if call.index == *index => call.complete = true,
            _ => {}
        }
        let ended = matches!(delta, Delta::ToolEnd { .. } | Delta::ToolBroken { .. }) && item.takes(delta);
        self.open = Some(item);
        if ended {
            self.close(out);
        }
    }

    fn begin(&mut self, part: Part, out: &mut Vec<Frame>) {
        let item = Item::new(part);
        let data = json!({ "output_index": self.output.len(), "item": item.begun() });
        out.push(self.event("response.output_item.added", data));
        if matches!(item.part, Part::Text(_)) {
            out.push(self.about(&item, "response.content_part.added", json!({ "part": text_part("") })));
        }
        self.open = Some(item);
    }

    /// Completes the open item.
    fn close(&mut self, out: &mut Vec<Frame>) {
        let Some(item) = self.open.take() else { return };
        match &item.part {
            Part::Reasoning(text) => {
                out.push(self.about(&item, "response.reasoning_text.done", json!({ "text": text })));
            }
            Part::Text(text) => {
                let data = json!({ "text": text, "logprobs": [] });
                out.push(self.about(&item, "response.output_text.done", data));
                out.push(self.about(&item, "response.content_part.done", json!({ "part": text_part(text) })));
            }
            Part::Call(call) => {
                let data = json!({ "name": call.name, "arguments": call.arguments });
                out.push(self.about(&item, "response.function_call_arguments.done", data));
            }
        }
        let json = item.json(status(&item.part));
        let data = json!({ "output_index": self.output.len(), "item": json });
        out.push(self.event("response.output_item.done", data));
        self.output.push(json);
    }

    fn end(&mut self, end: &End, out: &mut Vec<Frame>) {
        end.deltas.iter().for_each(|delta| self.delta(delta, out));
        self.close(out);
        let mut usage = Usage::new(self.facts.prompt);
        usage.add(&end.progress);
        let output = mem::take(&mut self.output);
        let response = self.response(output, &end.finish, usage);
        let data = json!({ "response": response, "timings": timings(&end.progress) });
        out.push(self.event("response.completed", data));
    }

    fn response(&self, output: Vec<Value>, finish: &Finish, usage: Usage) -> Value {
        let mut response = json!({
            "completed_at": ids::now(),
            "created_at": self.facts.created,
            "id": self.id(),
            "model": self.facts.model,
            "object": "response",
            "output": output,
            "status": "completed",
            "usage": usage.responses(),
        });
        if *finish == Finish::Length {
            response["status"] = json!("incomplete");
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        response
    }

    /// The items of a whole reply.
    fn items(message: &Message) -> Vec<Value> {
        let item = |part: &Part| Item::new(part.clone()).json(status(part));
        message.parts.iter().map(item).collect()
    }

    fn prompt(&mut self, progress: bloomery_core::scheduler::Progress, out: &mut [Frame]) {
        if let Some(Frame::Event(_, Value::Object(fields))) = out.last_mut().filter(|_| self.facts.progress) {
            fields.insert("prompt_progress".to_owned(), prompt_progress(&progress, self.facts.prompt));
        }
    }
}

impl Wire for ResponsesWire {
    fn step(&mut self, _choice: usize, step: &Step, out: &mut Vec<Frame>) {
        match step {
            Step::Started { cached } => {
                let response = self.in_progress();
                out.push(self.event("response.created", response.clone()));
                out.push(self.event("response.in_progress", response));
                let cached = *cached;
                self.prompt(bloomery_core::scheduler::Progress { cached, ..Default::default() }, out);
            }
            Step::Prompt(progress) if self.facts.progress => {
                let response = self.in_progress();
                out.push(self.event("response.in_progress", response));
                self.prompt(*progress, out);
            }
            Step::Prompt(_) => {}
            Step::Token { deltas, progress, .. } => {
                let before = out.len();
                deltas.iter().for_each(|delta| self.delta(delta, out));
                if self.facts.timings_per_token
                    && let Some(Frame::Event(_, Value::Object(fields))) = out[before..].last_mut()
                {
                    fields.insert("timings".to_owned(), timings(progress));
                }
            }
            Step::End(end) => self.end(end, out),
        }
    }

    fn object(&self, choices: &[Whole]) -> Value {
        let choice = &choices[0];
        let mut usage = Usage::new(self.facts.prompt);
        usage.add(&choice.progress);
        self.response(Self::items(&choice.message), &choice.finish, usage)
    }
}

/// The prefix that [`call_id`] adds.
const CALL: &str = "call_";

/// The id of a call as this API writes it.
fn call_id(id: &str) -> String {
    format!("{CALL}{id}")
}

/// The id of a call as the model's template knows it.
pub(crate) fn inner_call_id(id: &str) -> &str {
    id.strip_prefix(CALL).unwrap_or(id)
}

fn text_part(text: &str) -> Value {
    json!({ "type": "output_text", "annotations": [], "logprobs": [], "text": text })
}

fn status(part: &Part) -> &'static str {
    match part {
        Part::Call(call) if !call.complete => "incomplete",
        _ => "completed",
    }
}
