//! Events of responses.

use serde_json::{Value, json};

use super::super::{Facts, Finish, Frame, Step, Wire};
use super::super::{ResponsesWire, inner_call_id};
use super::support::{content, end, facts, frames, named, progress, rich, started, token, whole};
use crate::chat::Delta;

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| named(frame).0.trim_start_matches("response.")).collect()
}

#[test]
fn items_are_added_filled_and_done_in_turn() {
    let frames = frames(&mut ResponsesWire::new(facts()), &rich());
    assert_eq!(
        names(&frames),
        [
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_text.delta",
            "reasoning_text.delta",
            "reasoning_text.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]
    );
    for (at, frame) in frames.iter().enumerate() {
        assert_eq!(named(frame).1["sequence_number"], json!(at));
    }
    assert_eq!(named(&frames[17]).1["arguments"], "{\"a\":1}");
    assert_eq!(named(&frames[18]).1["item"]["call_id"], "call_c0");
    assert_eq!(inner_call_id("call_c0"), "c0");
}

#[test]
fn ids_are_the_same_in_every_event() {
    let frames = frames(&mut ResponsesWire::new(facts()), &rich());
    let output = &named(frames.last().unwrap()).1["response"]["output"];
    assert_eq!(output.as_array().unwrap().len(), 4);
    let mut done = Vec::new();
    for frame in &frames {
        let (name, value) = named(frame);
        let Some(index) = value["output_index"].as_u64() else { continue };
        let item = &output[index as usize];
        let id = value.get("item_id").unwrap_or(&value["item"]["id"]);
        assert_eq!(id, &item["id"], "{name}");
        if name == "response.output_item.done" {
            done.push(value["item"].clone());
        }
    }
    assert_eq!(&json!(done), output);
}

#[test]
fn the_object_says_what_the_stream_says() {
    let steps = rich();
    let frames = frames(&mut ResponsesWire::new(facts()), &steps);
    let without_ids = |mut value: Value| {
        for item in value["output"].as_array_mut().unwrap() {
            item.as_object_mut().unwrap().remove("id");
        }
        value["completed_at"] = json!(0);
        value
    };
    let streamed = named(frames.last().unwrap()).1["response"].clone();
    let object = ResponsesWire::new(facts()).object(&[whole(&steps)]);
    let kinds: Vec<&str> =
        object["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    assert_eq!(without_ids(streamed), without_ids(object));
}

#[test]
fn a_cut_reply_is_incomplete() {
    let cut = Delta::ToolStart { index: 0, id: "x".to_owned(), name: "f".to_owned() };
    let steps = [started(), token(1, vec![content("a"), cut]), end(Finish::Length, vec![])];
    let frames = frames(&mut ResponsesWire::new(facts()), &steps);
    let response = &named(frames.last().unwrap()).1["response"];
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["incomplete_details"], json!({ "reason": "max_output_tokens" }));
    assert_eq!(response["output"][0]["status"], "completed");
    assert_eq!(response["output"][1]["status"], "incomplete");
    assert_eq!(response["usage"]["input_tokens_details"]["cached_tokens"], 4);
}

#[test]
fn progress_is_told_of_the_prompt_and_timings_of_tokens() {
    let facts = Facts { progress: true, timings_per_token: true, ..facts() };
    let steps =
        [started(), Step::Prompt(progress(6, 0)), token(1, vec![content("a")]), end(Finish::Stop, vec![])];
    let frames = frames(&mut ResponsesWire::new(facts), &steps);
    let with = |key: &str| -> Vec<&str> {
        let has = |frame: &&Frame| named(frame).1.get(key).is_some();
        names(&frames.iter().filter(has).cloned().collect::<Vec<_>>())
            .iter()
            .map(|name| match *name {
                "in_progress" => "in_progress",
                "output_text.delta" => "output_text.delta",
                "completed" => "completed",
                _ => "other",
            })
            .collect()
    };
    assert_eq!(with("prompt_progress"), ["in_progress", "in_progress"]);
    assert_eq!(with("timings"), ["output_text.delta", "completed"]);
}
