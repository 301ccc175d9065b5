//! Chat completions: chunks that end with `[DONE]`, or one `chat.completion`.

use std::mem;

use bloomery_core::scheduler::Progress;
use serde_json::{Map, Value, json};

use super::message::Call;
use super::{End, Facts, Finish, Frame, Step, Usage, Whole, Wire};
use crate::api::ids::BUILD;
use crate::api::timings::{prompt_progress, timings};
use crate::chat::Delta;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct ChatWire {
    facts: Facts,
    choices: Vec<Choice>,
    /// Choices that have not ended.
    open: usize,
    usage: Usage,
    /// Prompt tokens that were known at the start; the progress counts from there.
    cached: usize,
}

/// How far a choice is.
#[derive(Debug, Default)]
struct Choice {
    /// The chunk with the role is out.
    begun: bool,
    /// Probabilities of tokens whose text is still held back.
    probs: Vec<Value>,
}

impl ChatWire {
    pub(crate) fn new(facts: Facts) -> ChatWire {
        let (choices, open) = ((0..facts.choices).map(|_| Choice::default()).collect(), facts.choices);
        let usage = Usage::new(facts.prompt);
        ChatWire { facts, choices, open, usage, cached: 0 }
    }

    fn chunk(&self, choices: Value) -> Map<String, Value> {
        let mut chunk = Map::new();
        chunk.insert("choices".to_owned(), choices);
        chunk.insert("created".to_owned(), json!(self.facts.created));
        chunk.insert("id".to_owned(), json!(self.id()));
        chunk.insert("model".to_owned(), json!(self.facts.model));
        chunk.insert("system_fingerprint".to_owned(), json!(BUILD));
        chunk.insert("object".to_owned(), json!("chat.completion.chunk"));
        chunk
    }

    fn delta(&self, choice: usize, delta: &Value) -> Map<String, Value> {
        self.chunk(json!([{ "finish_reason": null, "index": choice, "delta": delta }]))
    }

    fn id(&self) -> String {
        format!("chatcmpl-{}", self.facts.id)
    }

    fn role(&self, choice: usize) -> Map<String, Value> {
        self.delta(choice, &json!({ "role": "assistant", "content": null }))
    }

    /// The chunk with the role, before anything else of a choice.
    fn begin(&mut self, choice: usize, out: &mut Vec<Frame>) {
        if !mem::replace(&mut self.choices[choice].begun, true) {
            out.push(data(self.role(choice)));
        }
    }

    fn deltas(&mut self, choice: usize, deltas: &[Delta], timings: Option<Value>, out: &mut Vec<Frame>) {
        let deltas: Vec<Value> = deltas.iter().filter_map(delta).collect();
        let Some(last) = deltas.len().checked_sub(1) else { return };
        for (at, delta) in deltas.iter().enumerate() {
            let mut chunk = self.delta(choice, delta);
            if at == last {
                let probs = mem::take(&mut self.choices[choice].probs);
                if !probs.is_empty() {
                    chunk["choices"][0]["logprobs"] = json!({ "content": probs });
                }
                if let Some(timings) = &timings {
                    chunk.insert("timings".to_owned(), timings.clone());
                }
            }
            out.push(data(chunk));
        }
    }

    fn prompt(&self, choice: usize, progress: &Progress, out: &mut Vec<Frame>) {
        if !self.facts.progress || choice != 0 {
            return;
        }
        // What other requests have computed meanwhile counts as processed, not as known from the start.
        let later = progress.cached.saturating_sub(self.cached);
        let progress = Progress { cached: self.cached, prompt: progress.prompt + later, ..*progress };
        let mut chunk = self.role(choice);
        chunk.insert("prompt_progress".to_owned(), prompt_progress(&progress, self.facts.prompt));
        out.push(data(chunk));
    }

    fn end(&mut self, choice: usize, end: &End, out: &mut Vec<Frame>) {
        self.begin(choice, out);
        let first = out.len();
        self.deltas(choice, &end.deltas, None, out);
        let reason = finish_reason(&end.finish);
        let chunk = self.chunk(json!([{ "finish_reason": reason, "index": choice, "delta": {} }]));
        out.push(data(chunk));
        if let Some(verbose) = &end.verbose {
            insert(&mut out[first], "__verbose", verbose.clone());
        }
        self.usage.add(&end.progress);
        self.open = self.open.saturating_sub(1);
        if self.open > 0 {
            return;
        }
        if self.facts.usage {
            let mut chunk = self.chunk(json!([]));
            chunk.insert("usage".to_owned(), self.usage.chat());
            out.push(data(chunk));
        }
        if let Some(last) = out.last_mut() {
            insert(last, "timings", timings(&end.progress));
        }
        out.push(Frame::Done);
    }
}

impl Wire for ChatWire {
    fn step(&mut self, choice: usize, step: &Step, out: &mut Vec<Frame>) {
        match step {
            Step::Started { cached } => {
                if choice == 0 {
                    self.cached = *cached;
                }
                self.prompt(choice, &Progress { cached: *cached, ..Progress::default() }, out);
            }
            Step::Prompt(progress) => self.prompt(choice, progress, out),
            Step::Token { deltas, probs, progress } => {
                self.begin(choice, out);
                self.choices[choice].probs.extend(probs.clone());
                let timings = self.facts.timings_per_token.then(|| timings(progress));
                self.deltas(choice, deltas, timings, out);
            }
            Step::End(end) => self.end(choice, end, out),
        }
    }

    fn object(&self, choices: &[Whole]) -> Value {
        let mut usage = Usage::new(self.facts.prompt);
        choices.iter().for_each(|choice| usage.add(&choice.progress));
        let list: Vec<Value> =
            choices.iter().enumerate().map(|(index, choice)| whole(index, choice)).collect();
        let mut object = Map::new();
        object.insert("choices".to_owned(), json!(list));
        object.insert("created".to_owned(), json!(self.facts.created));
        object.insert("model".to_owned(), json!(self.facts.model));
        object.insert("system_fingerprint".to_owned(), json!(BUILD));
        object.insert("object".to_owned(), json!("chat.completion"));
        object.insert("usage".to_owned(), usage.chat());
        object.insert("id".to_owned(), json!(self.id()));
        if let Some(first) = choices.first() {
            if let Some(verbose) = &first.verbose {
                object.insert("__verbose".to_owned(), verbose.clone());
            }
            object.insert("timings".to_owned(), timings(&first.progress));
        }
        Value::Object(object)
    }
}

fn data(chunk: Map<String, Value>) -> Frame {
    Frame::Data(Value::Object(chunk))
}

fn insert(frame: &mut Frame, key: &str, value: Value) {
    if let Frame::Data(Value::Object(chunk)) = frame {
        chunk.insert(key.to_owned(), value);
    }
}

fn finish_reason(finish: &Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::StopText(_) => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
    }
}

/// A delta of the wire. The end of a call has none.
fn delta(delta: &Delta) -> Option<Value> {
    Some(match delta {
        Delta::Reasoning(text) | Delta::Content(text) if text.is_empty() => return None,
        Delta::Reasoning(text) => json!({ "reasoning_content": text }),
        Delta::Content(text) => json!({ "content": text }),
        Delta::ToolStart { index, id, name } => {
            // Some clients lose what the first delta of a call has of its arguments.
            let function = json!({ "name": name, "arguments": "" });
            json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function }] })
        }
        Delta::ToolArguments { index, fragment } => {
            json!({ "tool_calls": [{ "index": index, "function": { "arguments": fragment } }] })
        }
        Delta::ToolEnd { .. } | Delta::ToolBroken { .. } => return None,
    })
}

fn whole(index: usize, choice: &Whole) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.insert("content".to_owned(), json!(choice.message.content()));
    let reasoning = choice.message.reasoning();
    if !reasoning.is_empty() {
        message.insert("reasoning_content".to_owned(), json!(reasoning));
    }
    let calls: Vec<Value> = choice.message.calls().map(tool_call).collect();
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), json!(calls));
    }
    let reason = finish_reason(&choice.finish);
    let mut object = json!({ "finish_reason": reason, "index": index, "message": message });
    if !choice.probs.is_empty() {
        object["logprobs"] = json!({ "content": choice.probs });
    }
    object
}

fn tool_call(call: &Call) -> Value {
    let function = json!({ "name": call.name, "arguments": call.arguments });
    json!({ "type": "function", "id": call.id, "function": function })
}
