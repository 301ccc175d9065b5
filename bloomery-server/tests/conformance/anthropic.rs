//! G: Anthropic's API.

use serde_json::{Value, json};

use crate::chat::server_of;
use crate::support::{Server, SseEvent};

const MESSAGES: &str = "/v1/messages";
const QWEN3: &str = "Qwen-Qwen3-0.6B.jinja";

fn body(more: Value) -> Value {
    let mut body = json!({
        "model": "claude", "max_tokens": 12, "temperature": 0, "messages": [{"role": "user", "content": "Say hello."}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn weather() -> Value {
    json!({"name": "get_weather", "description": "w", "input_schema": {
        "type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"],
    }})
}

fn forced() -> Value {
    json!({"tools": [weather()], "tool_choice": {"type": "any", "disable_parallel_tool_use": true}, "max_tokens": 160})
}

/// Names and data of all events; each says its name twice.
fn checked(events: &[SseEvent]) -> Vec<(&str, Value)> {
    let event = |event: &SseEvent| {
        let data = event.json();
        assert_eq!(data["type"], event.name);
        assert!(data.get("timings").is_none());
    };
    events.iter().for_each(event);
    events
        .iter()
        .map(|event| (event.name.as_str(), event.json()))
        .filter(|(name, _)| *name != "ping")
        .collect()
}

#[test]
fn case_097_a_message() {
    let server = Server::start(&["-a", "demo-alias"]);
    let answer = server.ok(MESSAGES, body(json!({"max_tokens": 50})));
    assert_eq!(
        (&answer["type"], &answer["role"], &answer["model"]),
        (&json!("message"), &json!("assistant"), &json!("demo-alias"))
    );
    assert!(answer["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(answer["content"][0]["type"], "text");
    assert!(["end_turn", "max_tokens"].contains(&answer["stop_reason"].as_str().unwrap()));
    assert_eq!(answer["stop_sequence"], Value::Null);
    for name in ["input_tokens", "cache_read_input_tokens", "output_tokens"] {
        assert!(answer["usage"][name].is_u64());
    }
    assert!(answer["usage"]["output_tokens"].as_u64().unwrap() > 0 && answer.get("timings").is_none());
}

#[test]
fn case_098_forms_of_prompts() {
    let server = Server::start(&[]);
    let text = |text: &str| json!({"type": "text", "text": text});
    for more in [
        json!({"system": "Be kind."}),
        json!({"system": [text("Be kind."), text("Be brief.")]}),
        json!({"messages": [{"role": "user", "content": [text("What is"), text("the answer?")]}]}),
        json!({"messages": [
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "How?"},
        ]}),
        json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Now be brief."}]}),
    ] {
        for path in [MESSAGES, "/v1/messages?beta=true"] {
            server.ok(path, body(more.clone()));
        }
    }
}

#[test]
fn case_099_a_stream() {
    let server = Server::start(&[]);
    let events = server.stream(MESSAGES, body(json!({})));
    let events = checked(&events);
    let names: Vec<&str> = events.iter().map(|(name, _)| *name).collect();
    assert_eq!(names[..2], ["message_start", "content_block_start"]);
    assert_eq!(names[names.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    assert!(names[2..names.len() - 3].iter().all(|name| *name == "content_block_delta") && names.len() > 5);
    let start = &events[0].1["message"];
    assert_eq!(start["content"], json!([]));
    let usage = &start["usage"];
    assert!(usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(events[1].1["index"], 0);
    let text: String = events.iter().filter_map(|(_, data)| data["delta"]["text"].as_str()).collect();
    assert_eq!(text, server.ok(MESSAGES, body(json!({})))["content"][0]["text"].as_str().unwrap());
    let end = &events[events.len() - 2].1;
    assert_eq!(end["delta"], json!({"stop_reason": "max_tokens", "stop_sequence": null}));
    assert!(end["usage"]["output_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn case_100_blocks_of_a_stream_with_tools() {
    for (server, more) in [
        (Server::start(&[]), forced()),
        (Server::start(&[]), json!({"tools": [weather()]})),
        (server_of(QWEN3, &[]), forced()),
    ] {
        let mut body = body(more);
        body["thinking"] = json!({"type": "enabled", "budget_tokens": 4});
        let events = server.stream(MESSAGES, body);
        let events = checked(&events);
        let indices = |wanted: &str| -> Vec<u64> {
            let own = events.iter().filter(|(name, _)| *name == wanted);
            own.map(|(_, data)| data["index"].as_u64().unwrap()).collect()
        };
        let starts = indices("content_block_start");
        assert_eq!(starts, (0..starts.len() as u64).collect::<Vec<_>>());
        assert_eq!(starts, indices("content_block_stop"));
        assert!(!starts.is_empty());
    }
}

#[test]
fn case_101_results_of_tools() {
    for server in [Server::start(&[]), server_of(QWEN3, &[])] {
        let call = json!({"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Paris"}});
        for result in [
            json!([{"type": "tool_result", "tool_use_id": "t1", "content": "Sunny"}]),
            json!([{"type": "tool_result", "tool_use_id": "t1", "content": "Sunny"}, {"type": "text", "text": "And?"}]),
            json!([{"type": "tool_result", "tool_use_id": "t1", "content": "Lost", "is_error": true}]),
            json!([{"type": "tool_result", "tool_use_id": "t1"}]),
        ] {
            let messages = json!([
                {"role": "user", "content": "Weather?"}, {"role": "assistant", "content": [call]}, {"role": "user", "content": result},
            ]);
            server.ok(MESSAGES, body(json!({"messages": messages, "tools": [weather()]})));
        }
    }
}

#[test]
fn case_102_images() {
    let server = Server::start(&[]);
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    let call = json!({"type": "tool_use", "id": "t1", "name": "get_weather", "input": {}});
    for messages in [
        json!([{"role": "user", "content": [image]}]),
        json!([
            {"role": "user", "content": "x"}, {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [image]}]},
        ]),
    ] {
        let answer = server.post(MESSAGES, body(json!({"messages": messages})));
        assert_eq!(answer.status, 500);
        assert!(answer.error().contains("image input is not supported"), "{}", answer.body);
    }
}

#[test]
fn case_103_fields() {
    let server = Server::start(&[]);
    for more in [
        json!({"stop_sequences": ["the", "a"]}),
        json!({"temperature": 0.5}),
        json!({"top_p": 0.9}),
        json!({"top_k": 40}),
        json!({"metadata": {"user_id": "u"}}),
        json!({"thinking": {"type": "enabled", "budget_tokens": 50}}),
        json!({"thinking": {"type": "disabled"}}),
        json!({"thinking": {"type": "adaptive"}}),
        json!({"context_management": {}, "output_config": {"effort": "low"}, "service_tier": "auto", "betas": ["x"]}),
    ] {
        server.ok(MESSAGES, body(more));
    }
    let stopped = server.ok(MESSAGES, body(json!({"stop_sequences": [" time", "zzz"], "max_tokens": 40})));
    assert_eq!(
        (&stopped["stop_reason"], &stopped["stop_sequence"]),
        (&json!("stop_sequence"), &json!(" time"))
    );
    assert!(!stopped["content"][0]["text"].as_str().unwrap().contains(" time"));
}

#[test]
fn case_104_no_messages() {
    let server = Server::start(&[]);
    let answer = server.post(MESSAGES, json!({"model": "x", "max_tokens": 4}));
    assert_eq!((answer.status, answer.json()["type"].as_str()), (400, Some("error")));
    assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    server.ok(MESSAGES, body(json!({"messages": []})));
}

#[test]
fn case_105_the_count_of_tokens() {
    let server = server_of(QWEN3, &[]);
    let count = |more: Value| {
        let mut body = body(more);
        body.as_object_mut().unwrap().remove("max_tokens");
        let answer = server.ok("/v1/messages/count_tokens", body);
        assert_eq!(answer.as_object().unwrap().len(), 1);
        answer["input_tokens"].as_u64().unwrap()
    };
    let plain = count(json!({}));
    let system = count(json!({"system": "You are a poet."}));
    assert!(0 < plain && plain < system);
    let used = server.ok(MESSAGES, body(json!({"system": "You are a poet."})))["usage"].clone();
    assert_eq!(
        used["input_tokens"].as_u64().unwrap() + used["cache_read_input_tokens"].as_u64().unwrap(),
        system
    );
    let history = |thought: bool| {
        let call = json!({"type": "tool_use", "id": "t1", "name": "get_weather", "input": {}});
        let content = if thought {
            json!([{"type": "thinking", "thinking": "A long thought.", "signature": ""}, call])
        } else {
            json!([call])
        };
        json!({"messages": [
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Sunny"}]},
        ]})
    };
    assert!(count(history(true)) > count(history(false)));
    let mut with_tools = history(false);
    with_tools["tools"] = json!([weather()]);
    assert!(count(with_tools) > count(history(false)));
}

#[test]
fn case_106_the_stamp_of_claude_code() {
    let server = Server::start(&["-np", "1"]);
    let system = "You are Claude Code, a tool for people who build things. ".repeat(6);
    let ask = |stamp: &str| {
        let system = json!([
            {"type": "text", "text": format!("x-anthropic-billing-header: cc_version=2.1.101.e51; cc_entrypoint=cli; cch={stamp};")},
            {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}},
        ]);
        server.ok(MESSAGES, body(json!({"system": system})))["usage"].clone()
    };
    let number = |usage: &Value, name: &str| usage[name].as_u64().unwrap();
    let first = ask("a5145");
    let prompt = number(&first, "input_tokens") + number(&first, "cache_read_input_tokens");
    let second = ask("0b1c2");
    assert!(number(&second, "cache_read_input_tokens") >= prompt - 64, "{first} {second}");
    assert_eq!(number(&second, "input_tokens") + number(&second, "cache_read_input_tokens"), prompt);
}

#[test]
fn case_107_a_stream_that_thinks() {
    let server = server_of("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", &[]);
    let more = json!({"thinking": {"type": "enabled", "budget_tokens": 5}, "max_tokens": 20});
    let events = server.stream(MESSAGES, body(more));
    let events = checked(&events);
    let of = |index: u64, kind: &str| {
        events.iter().filter(|(_, data)| data["index"] == index && data["delta"]["type"] == kind).count()
    };
    assert!(of(0, "thinking_delta") > 0 && of(1, "text_delta") > 0);
    assert_eq!((of(0, "signature_delta"), of(1, "signature_delta")), (1, 0));
    let starts: Vec<&Value> = events
        .iter()
        .filter(|(name, _)| *name == "content_block_start")
        .map(|(_, data)| &data["content_block"]["type"])
        .collect();
    assert_eq!(starts, [&json!("thinking"), &json!("text")]);
}

#[test]
fn case_108_the_input_of_a_call() {
    for server in [Server::start(&[]), server_of(QWEN3, &[])] {
        let mut body = body(forced());
        body["thinking"] = json!({"type": "enabled", "budget_tokens": 4});
        let events = server.stream(MESSAGES, body.clone());
        let events = checked(&events);
        let start = events.iter().find(|(_, data)| data["content_block"]["type"] == "tool_use").unwrap();
        assert_eq!(
            (&start.1["content_block"]["name"], &start.1["content_block"]["input"]),
            (&json!("get_weather"), &json!({}))
        );
        let text: String =
            events.iter().filter_map(|(_, data)| data["delta"]["partial_json"].as_str()).collect();
        let input: Value = serde_json::from_str(&text).unwrap();
        assert!(["Paris", "Rome"].contains(&input["city"].as_str().unwrap()));
        let answer = server.ok(MESSAGES, body);
        assert_eq!(answer["stop_reason"], "tool_use", "{answer}");
        let call = answer["content"].as_array().unwrap().last().unwrap();
        assert_eq!((&call["type"], &call["input"]), (&json!("tool_use"), &input));
    }
}

#[test]
fn a_prompt_that_is_too_long_says_so_in_both_tongues() {
    let server = Server::start(&[]);
    let long = json!([{"role": "user", "content": "word ".repeat(9000)}]);
    for stream in [false, true] {
        let answer = server.post(MESSAGES, body(json!({"messages": long, "stream": stream})));
        assert_eq!(answer.status, 400);
        let message = answer.error();
        assert!(
            message.contains("prompt is too long: ")
                && message.contains("exceeds the available context size"),
            "{message}"
        );
    }
}
