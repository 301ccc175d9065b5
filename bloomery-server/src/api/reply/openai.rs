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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{content, end, facts, frames, progress, rich, started, token, whole};
    use super::super::{End, Facts, Finish, Frame, Step, Wire};
    use super::ChatWire;

    /// The chunks without what all have in common, and without timings.
    fn chunks(frames: &[Frame]) -> Vec<Value> {
        let chunk = |frame: &Frame| {
            let Frame::Data(value) = frame else { panic!("{frame:?}") };
            let mut value = value.clone();
            let object = value.as_object_mut().unwrap();
            let keys: Vec<&str> = object.keys().take(6).map(String::as_str).collect();
            assert_eq!(keys, ["choices", "created", "id", "model", "system_fingerprint", "object"]);
            assert_eq!(
                (&object["id"], &object["object"]),
                (&json!("chatcmpl-ID"), &json!("chat.completion.chunk"))
            );
            object.retain(|key, _| {
                ["choices", "usage", "prompt_progress", "__verbose"].contains(&key.as_str())
            });
            match object.len() {
                1 if object["choices"].as_array().unwrap().len() == 1 => object["choices"][0].clone(),
                _ => value,
            }
        };
        assert_eq!(frames.last(), Some(&Frame::Done));
        frames[..frames.len() - 1].iter().map(chunk).collect()
    }

    fn delta(delta: Value) -> Value {
        json!({ "finish_reason": null, "index": 0, "delta": delta })
    }

    #[test]
    fn a_stream_has_a_role_then_deltas_then_a_reason() {
        let frames = frames(&mut ChatWire::new(facts()), &rich());
        let function = |name: &str| json!({ "name": name, "arguments": "" });
        let fragment = |index: usize, text: &str| {
            delta(json!({ "tool_calls": [{ "index": index, "function": { "arguments": text } }] }))
        };
        let start = |index: usize, id: &str, name: &str| {
            delta(
                json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function(name) }] }),
            )
        };
        assert_eq!(
            chunks(&frames),
            [
                delta(json!({ "role": "assistant", "content": null })),
                delta(json!({ "reasoning_content": "Hm" })),
                delta(json!({ "reasoning_content": "m." })),
                delta(json!({ "content": "Let me" })),
                delta(json!({ "content": " look." })),
                start(0, "c0", "f"),
                fragment(0, "{\"a\":"),
                fragment(0, "1}"),
                start(1, "c1", "g"),
                fragment(1, "{"),
                fragment(1, "}"),
                json!({ "finish_reason": "tool_calls", "index": 0, "delta": {} }),
            ]
        );
        let with_timings =
            |frame: &&Frame| matches!(frame, Frame::Data(value) if value.get("timings").is_some());
        assert_eq!(frames.iter().filter(with_timings).count(), 1);
        assert!(with_timings(&&frames[frames.len() - 2]));
    }

    #[test]
    fn usage_and_timings_ride_on_the_last_chunk() {
        let facts = Facts { usage: true, timings_per_token: true, ..facts() };
        let steps =
            [started(), token(1, vec![content("a"), content("b")]), end(Finish::Length, vec![content("c")])];
        let frames = frames(&mut ChatWire::new(facts), &steps);
        let has = |key: &str| -> Vec<bool> {
            let has = |frame: &Frame| matches!(frame, Frame::Data(value) if value.get(key).is_some());
            frames.iter().map(has).collect()
        };
        // role, a, b, c, the reason, the usage, [DONE]
        assert_eq!(has("timings"), [false, false, true, false, false, true, false]);
        assert_eq!(has("usage"), [false, false, false, false, false, true, false]);
        let Frame::Data(last) = &frames[5] else { panic!() };
        assert_eq!(last["choices"], json!([]));
        assert_eq!(
            last["usage"].to_string(),
            "{\"completion_tokens\":9,\"prompt_tokens\":10,\"total_tokens\":19,\"prompt_tokens_details\":{\"cached_tokens\":4}}"
        );
    }

    #[test]
    fn progress_counts_from_what_was_known() {
        let facts = Facts { progress: true, ..facts() };
        let steps = [
            started(),
            Step::Prompt(progress(3, 0)),
            Step::Prompt(progress(6, 0)),
            token(1, vec![]),
            end(Finish::Stop, vec![]),
        ];
        let chunks = chunks(&frames(&mut ChatWire::new(facts), &steps));
        let told: Vec<(u64, u64, u64)> = chunks
            .iter()
            .filter_map(|chunk| chunk.get("prompt_progress"))
            .map(|told| {
                let number = |key: &str| told[key].as_u64().unwrap();
                (number("total"), number("cache"), number("processed"))
            })
            .collect();
        assert_eq!(told, [(10, 4, 4), (10, 4, 7), (10, 4, 10)]);
        assert_eq!(chunks.len(), 5);
    }

    #[test]
    fn choices_interleave_and_the_last_one_closes() {
        let mut wire = ChatWire::new(Facts { choices: 2, usage: true, ..facts() });
        let mut out = Vec::new();
        for (choice, step) in [
            (1, started()),
            (1, token(1, vec![content("b")])),
            (0, started()),
            (0, token(1, vec![content("a")])),
            (1, end(Finish::Stop, vec![])),
            (0, end(Finish::Length, vec![])),
        ] {
            wire.step(choice, &step, &mut out);
        }
        let chunks = chunks(&out);
        let indices: Vec<i64> = chunks.iter().map(|chunk| chunk["index"].as_i64().unwrap_or(-1)).collect();
        assert_eq!(indices, [1, 1, 0, 0, 1, 0, -1]);
        assert_eq!(chunks[6]["usage"]["completion_tokens"], 18);
    }

    #[test]
    fn probabilities_wait_for_their_text() {
        let with = |generated, probs: &str, deltas| Step::Token {
            deltas,
            probs: Some(json!(probs)),
            progress: progress(6, generated),
        };
        let steps = [
            started(),
            with(1, "p1", vec![]),
            with(2, "p2", vec![content("a")]),
            with(3, "p3", vec![content("b")]),
            end(Finish::Stop, vec![]),
        ];
        let chunks = chunks(&frames(&mut ChatWire::new(facts()), &steps));
        assert_eq!(chunks[1]["logprobs"], json!({ "content": ["p1", "p2"] }));
        assert_eq!(chunks[2]["logprobs"], json!({ "content": ["p3"] }));
        assert!(chunks[0].get("logprobs").is_none() && chunks[3].get("logprobs").is_none());
    }

    #[test]
    fn the_object_says_what_the_stream_says() {
        let object = ChatWire::new(facts()).object(&[whole(&rich())]);
        let keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            ["choices", "created", "model", "system_fingerprint", "object", "usage", "id", "timings"]
        );
        let call = |id: &str, name: &str, arguments: &str| json!({ "type": "function", "id": id, "function": { "name": name, "arguments": arguments } });
        assert_eq!(
            object["choices"],
            json!([{
                "finish_reason": "tool_calls",
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Let me look.",
                    "reasoning_content": "Hmm.",
                    "tool_calls": [call("c0", "f", "{\"a\":1}"), call("c1", "g", "{}")],
                },
            }])
        );
    }

    #[test]
    fn verbose_is_on_the_first_chunk_of_the_end() {
        let Step::End(end) = end(Finish::Stop, vec![content("z")]) else { panic!() };
        let end = Step::End(End { verbose: Some(json!({ "prompt": "p" })), ..end });
        let chunks =
            chunks(&frames(&mut ChatWire::new(facts()), &[started(), token(1, vec![]), end.clone()]));
        assert_eq!(chunks[1]["__verbose"]["prompt"], "p");
        let mut whole = whole(&[end]);
        whole.verbose = Some(json!({ "prompt": "p" }));
        assert_eq!(ChatWire::new(facts()).object(&[whole])["__verbose"]["prompt"], "p");
    }

    #[test]
    fn a_reply_without_tokens_still_has_a_role() {
        let chunks = chunks(&frames(&mut ChatWire::new(facts()), &[started(), end(Finish::Length, vec![])]));
        assert_eq!(chunks.len(), 2);
        assert_eq!(chunks[0]["delta"]["role"], "assistant");
    }
}
