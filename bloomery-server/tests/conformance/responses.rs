//! H: the Responses API.

use serde_json::{Value, json};

use crate::support::{Server, SseEvent};

const RESPONSES: &str = "/v1/responses";

fn body(more: Value) -> Value {
    let mut body = json!({
        "model": "gpt", "max_output_tokens": 8, "temperature": 0,
        "input": [{"role": "system", "content": "Book"}, {"role": "user", "content": "What is the best book?"}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn checked(events: &[SseEvent]) -> Vec<(&str, Value)> {
    for (at, event) in events.iter().enumerate() {
        assert_eq!(
            (&event.json()["type"], &event.json()["sequence_number"]),
            (&json!(event.name), &json!(at))
        );
    }
    events.iter().map(|event| (event.name.as_str(), event.json())).collect()
}

#[test]
fn case_109_a_response() {
    let server = Server::start(&["-a", "demo-alias"]);
    for path in [RESPONSES, "/responses"] {
        let answer = server.ok(path, body(json!({})));
        assert!(answer["id"].as_str().unwrap().starts_with("resp_"));
        assert!(answer["output"][0]["id"].as_str().unwrap().starts_with("msg_"));
        assert_eq!((&answer["object"], &answer["model"]), (&json!("response"), &json!("demo-alias")));
        assert!(!answer["output"][0]["content"][0]["text"].as_str().unwrap().is_empty());
        assert_eq!((&answer["status"], &answer["usage"]["output_tokens"]), (&json!("incomplete"), &json!(8)));
    }
    server.ok(RESPONSES, body(json!({"input": [], "max_output_tokens": 1})));
    server.ok(RESPONSES, body(json!({"input": "Say hello."})));
}

#[test]
fn case_110_a_stream() {
    let server = Server::start(&[]);
    let events = server.stream(RESPONSES, body(json!({})));
    let events = checked(&events);
    let names: Vec<&str> = events.iter().map(|(name, _)| *name).collect();
    assert_eq!(names[..2], ["response.created", "response.in_progress"]);
    assert_eq!(*names.last().unwrap(), "response.completed");
    let response = &events.last().unwrap().1["response"];
    let item = &response["output"][0];
    let mut text = String::new();
    for (name, data) in &events {
        if let Some(id) = data["response"]["id"].as_str() {
            assert_eq!(id, response["id"]);
        }
        if let Some(id) = data["item_id"].as_str().or_else(|| data["item"]["id"].as_str()) {
            assert_eq!((id, &data["output_index"]), (item["id"].as_str().unwrap(), &json!(0)), "{name}");
        }
        if *name == "response.output_text.delta" {
            text.push_str(data["delta"].as_str().unwrap());
        }
        if *name == "response.output_item.done" {
            assert_eq!(&data["item"], item);
        }
    }
    assert_eq!(text, item["content"][0]["text"].as_str().unwrap());
    let whole = server.ok(RESPONSES, body(json!({})));
    assert_eq!(text, whole["output"][0]["content"][0]["text"].as_str().unwrap());
}

#[test]
fn case_111_progress_and_timings() {
    let server = Server::start(&["-b", "32", "-ub", "32"]);
    let text = "The old king had a son who was very rich. ".repeat(20);
    let more = json!({"input": text, "return_progress": true, "timings_per_token": true});
    let events = server.stream(RESPONSES, body(more));
    let events = checked(&events);
    let with = |key: &str| {
        events.iter().filter(|(_, data)| data.get(key).is_some()).map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let progress = with("prompt_progress");
    assert!(
        progress.len() > 3 && progress.iter().all(|name| *name == "response.in_progress"),
        "{progress:?}"
    );
    let timings = with("timings");
    assert!(timings.contains(&"response.output_text.delta"));
    let last = &events.last().unwrap().1;
    assert!(last.get("timings").is_some() && last["response"]["usage"]["total_tokens"].as_u64().unwrap() > 8);
}

#[test]
fn case_112_tools_of_other_types() {
    let server = Server::start(&[]);
    let tools = json!([
        {"type": "function", "name": "shell_of_mine", "description": "d", "parameters": {"type": "object", "properties": {}}},
        {"type": "web_search"}, {"type": "custom", "name": "patch_of_yours"},
        {"type": "namespace", "name": "others", "tools": [{"type": "function", "name": "inner_one"}]},
    ]);
    let answer = server.ok(RESPONSES, body(json!({"tools": tools, "verbose": true})));
    assert_eq!(answer["object"], "response");
    let count = |tools: &Value| {
        server.ok("/v1/responses/input_tokens", body(json!({"tools": tools})))["input_tokens"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(count(&tools), count(&json!([tools[0]])));
}

#[test]
fn case_113_what_is_not_stored() {
    let server = Server::start(&[]);
    let answer = server.post(RESPONSES, body(json!({"previous_response_id": "x"})));
    assert_eq!(
        (answer.status, answer.json()["error"]["type"].as_str()),
        (400, Some("invalid_request_error"))
    );
    server.ok(RESPONSES, body(json!({"previous_response_id": null})));
    let count = server.ok("/responses/input_tokens", body(json!({})));
    let used = server.ok(RESPONSES, body(json!({})))["usage"]["input_tokens"].clone();
    assert_eq!(count, json!({"object": "response.input_tokens", "input_tokens": used}));
}

#[test]
fn a_format_of_the_text_is_kept() {
    let server = Server::start(&[]);
    let format = json!({"type": "json_schema", "name": "n", "strict": true, "schema": {"const": "foo"}});
    let answer = server.ok(RESPONSES, body(json!({"text": {"format": format}, "max_output_tokens": 20})));
    assert_eq!(answer["output"][0]["content"][0]["text"], "\"foo\"");
    assert_eq!(answer["status"], "completed");
}
