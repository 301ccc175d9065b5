//! Chunks of chat completions.

use serde_json::{Value, json};

use super::super::ChatWire;
use super::super::{End, Facts, Finish, Frame, Step, Wire};
use super::support::{content, end, facts, frames, progress, rich, started, token, whole};

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
        object.retain(|key, _| ["choices", "usage", "prompt_progress", "__verbose"].contains(&key.as_str()));
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
    let with_timings = |frame: &&Frame| matches!(frame, Frame::Data(value) if value.get("timings").is_some());
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
    let chunks = chunks(&frames(&mut ChatWire::new(facts()), &[started(), token(1, vec![]), end.clone()]));
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
