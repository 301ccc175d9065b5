//! F: tools.

use serde_json::{Value, json};

use crate::chat::server_of;
use crate::support::{Server, SseEvent};

const CHAT: &str = "/v1/chat/completions";
const QWEN3: &str = "Qwen-Qwen3-0.6B.jinja";

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "description": "d", "parameters": {
        "type": "object", "properties": {"success": {"type": "boolean", "const": true}}, "required": ["success"],
    }}})
}

fn body(more: Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 80, "temperature": 0, "seed": 42,
        "reasoning_budget": 4,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Deltas of all chunks, and the reason at the end.
fn deltas(events: &[SseEvent]) -> (Vec<Value>, Value) {
    let (done, rest) = events.split_last().unwrap();
    assert_eq!(done.data, "[DONE]");
    let choices: Vec<Value> = rest.iter().map(|event| event.json()["choices"][0].clone()).collect();
    let reason = choices.last().unwrap()["finish_reason"].clone();
    (choices.into_iter().map(|choice| choice["delta"].clone()).collect(), reason)
}

fn history(call: Value) -> Value {
    json!([{"role": "user", "content": "2+3?"}, call, {"role": "tool", "tool_call_id": "c1", "content": "5"}])
}

#[test]
fn case_087_no_calls() {
    for server in [Server::start(&[]), server_of(QWEN3, &[])] {
        for more in [
            json!({"tools": []}),
            json!({"tools": [tool("f")]}),
            json!({"tools": [tool("f")], "tool_choice": "none"}),
        ] {
            let mut body = body(more);
            body["max_tokens"] = json!(16);
            let answer = server.ok(CHAT, body.clone());
            assert!(answer["choices"][0]["message"].get("tool_calls").is_none(), "{answer}");
            let (deltas, _) = deltas(&server.stream(CHAT, body));
            assert!(deltas.iter().all(|delta| delta.get("tool_calls").is_none()));
        }
    }
}

#[test]
fn case_088_a_required_call() {
    for server in [Server::start(&[]), server_of(QWEN3, &[]), server_of("Qwen3-Coder.jinja", &[])] {
        let body =
            body(json!({"tools": [tool("f")], "tool_choice": "required", "parallel_tool_calls": false}));
        let answer = server.ok(CHAT, body.clone());
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
        let calls = choice["message"]["tool_calls"].as_array().unwrap();
        assert_eq!((calls.len(), &calls[0]["function"]["name"]), (1, &json!("f")));
        let arguments = calls[0]["function"]["arguments"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(arguments).unwrap()["success"], true);
        let (deltas, reason) = deltas(&server.stream(CHAT, body));
        assert_eq!(reason, "tool_calls");
        let fragments: String = deltas
            .iter()
            .filter_map(|delta| delta["tool_calls"][0]["function"]["arguments"].as_str())
            .collect();
        assert_eq!(fragments, arguments);
    }
}

#[test]
fn case_089_the_result_of_a_call() {
    for server in [Server::start(&[]), server_of(QWEN3, &[])] {
        let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"success\":true}"}});
        let messages = history(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        let answer =
            server.ok(CHAT, body(json!({"messages": messages, "tools": [tool("f")], "max_tokens": 12})));
        let message = &answer["choices"][0]["message"];
        assert!(message.get("tool_calls").is_none(), "{message}");
        let said = message["content"].as_str().unwrap().len()
            + message["reasoning_content"].as_str().map_or(0, str::len);
        assert!(said > 0);
    }
}

#[test]
fn case_090_calls_as_other_clients_write_them() {
    for server in [Server::start(&[]), server_of(QWEN3, &[])] {
        let call = json!({"id": null, "function": {"name": "f", "arguments": {"success": true}}});
        let mut messages = history(json!({"role": "assistant", "tool_calls": [call]}));
        messages[2]["tool_call_id"] = Value::Null;
        server.ok(CHAT, body(json!({"messages": messages, "tools": [tool("f")], "max_tokens": 4})));
        let prompt = server.ok("/apply-template", body(json!({"messages": messages, "tools": [tool("f")]})));
        let prompt = prompt["prompt"].as_str().unwrap();
        assert!(prompt.contains("success") && prompt.contains("5"), "{prompt}");
    }
}

#[test]
fn case_091_a_choice_that_is_none() {
    let server = Server::start(&[]);
    let answer = server.post(CHAT, body(json!({"tools": [tool("f")], "tool_choice": "sometimes"})));
    assert_eq!((answer.status, answer.error().as_str()), (400, "Invalid tool_choice: sometimes"));
}

#[test]
fn case_092_a_call_by_name() {
    let server = Server::start(&[]);
    let with = |name: &str| {
        body(json!({
            "tools": [tool("f"), tool("g")], "parallel_tool_calls": false,
            "tool_choice": {"type": "function", "function": {"name": name}},
        }))
    };
    let answer = server.ok(CHAT, with("g"));
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "g", "{answer}");
    assert_eq!(server.post(CHAT, with("h")).status, 400);
}

#[test]
fn case_093_thinking_apart() {
    let server = server_of("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", &[]);
    let with = |format: &str| {
        let answer = server.ok(CHAT, body(json!({"reasoning_format": format, "max_tokens": 24})));
        answer["choices"][0]["message"].clone()
    };
    let apart = with("deepseek");
    assert!(!apart["reasoning_content"].as_str().unwrap().is_empty());
    assert!(!apart["content"].as_str().unwrap().contains("think>"));
    let raw = with("none");
    assert!(raw.get("reasoning_content").is_none() && raw["content"].as_str().unwrap().contains("</think>"));
    assert_eq!(server.post(CHAT, body(json!({"reasoning_format": "loud"}))).status, 400);
}

#[test]
fn case_094_thoughts_of_the_history() {
    let server = server_of(QWEN3, &[]);
    let call = |thought: &str| {
        let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        json!({"role": "assistant", "content": "", "reasoning_content": thought, "tool_calls": [call]})
    };
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "5"});
    let messages = json!([{"role": "user", "content": "2+3?"}, call("first thought"), result, call("second thought"), result]);
    let answer = server.ok("/apply-template", body(json!({"messages": messages, "tools": [tool("f")]})));
    let prompt = answer["prompt"].as_str().unwrap();
    for thought in ["first thought", "second thought"] {
        assert!(prompt.contains(&format!("<think>\n{thought}\n</think>")), "{prompt}");
    }
}

#[test]
fn case_095_heads_of_streamed_calls() {
    for server in [Server::start(&[]), server_of(QWEN3, &[])] {
        let body =
            body(json!({"tools": [tool("f")], "tool_choice": "required", "parallel_tool_calls": false}));
        let (deltas, _) = deltas(&server.stream(CHAT, body));
        let calls: Vec<&Value> = deltas.iter().filter_map(|delta| delta["tool_calls"].get(0)).collect();
        assert!(calls.len() > 2);
        assert!(calls.iter().all(|call| call["index"] == 0));
        let head = |name: &str| calls.iter().filter(|call| call.get(name).is_some()).count();
        let names = calls.iter().filter(|call| call["function"].get("name").is_some()).count();
        assert_eq!((head("id"), head("type"), names), (1, 1, 1));
        assert_eq!(calls[0]["function"], json!({"name": "f", "arguments": ""}));
    }
}

#[test]
fn case_096_tools_beside_a_grammar() {
    let server = Server::start(&[]);
    let with = |choice: &str| {
        server.post(
            CHAT,
            body(json!({"tools": [tool("f")], "tool_choice": choice, "grammar": "root ::= \"a\""})),
        )
    };
    assert_eq!((with("auto").status, with("none").status), (400, 200));
}

#[test]
fn a_call_that_is_cut_says_so() {
    let server = Server::start(&[]);
    let mut body = body(json!({"tools": [tool("f")], "tool_choice": "required"}));
    body["max_tokens"] = json!(20);
    assert_eq!(server.ok(CHAT, body.clone())["choices"][0]["finish_reason"], "length");
    assert_eq!(deltas(&server.stream(CHAT, body)).1, "length");
}

#[test]
fn odd_schemas_of_tools_do_not_end_a_request() {
    let server = Server::start(&[]);
    let odd = |parameters: Value| json!({"type": "function", "function": {"name": "odd", "parameters": parameters}});
    for parameters in [
        json!({"type": "object", "properties": {"mail": {"type": "string", "pattern": "^(?!\\.)(?=.*x)[a-z]+@x$"}}}),
        json!({"type": "object", "properties": {"x": {"type": "hiccup"}}}),
        json!({"properties": {"x": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}),
        json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 10000}}}),
        json!({"type": "object", "properties": {"x": {"$ref": "https://example.com/schema.json"}}}),
    ] {
        let tools = json!([odd(parameters), tool("f")]);
        let named = json!({"type": "function", "function": {"name": "f"}});
        let auto = body(json!({"tools": tools, "max_tokens": 4}));
        server.ok(CHAT, auto);
        let answer = server
            .ok(CHAT, body(json!({"tools": tools, "tool_choice": named, "parallel_tool_calls": false})));
        assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls", "{answer}");
        server.ok(CHAT, body(json!({"tools": tools, "tool_choice": "required", "max_tokens": 12})));
    }
}
