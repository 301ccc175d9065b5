//! Small models of the large architectures behind HTTP: chat, thinking and tools in their families' markup, with guesses of their own
//! block. Their weights are random, so that a call is made where one has to be.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::serving::{Server, program};

/// An architecture, a template of its family, and what guesses the next tokens.
type Seat = (&'static str, &'static str, &'static str);

const SEATS: [Seat; 3] = [
    ("glm5next", "GLM-4.6.jinja", "mtp"),
    ("qwen4exp", "Qwen3-Coder.jinja", "mtp"),
    // The shape of the published one, which is in no package.
    ("deepseek41", "deepseek-v4.1.jinja", "dspark"),
];

fn data(parts: &[&str]) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "bloomery-core", "tests", "data"].iter().collect();
    parts.iter().fold(path, |path, part| path.join(part)).to_str().unwrap().to_owned()
}

fn start((arch, template, block): Seat, more: &[&str]) -> Server {
    let model = data(&["models", &format!("{arch}-small-bf16.gguf")]);
    let block = data(&["models", &format!("{block}-{arch}-bf16.gguf")]);
    let published = data(&["chat", "templates", template]);
    let own = format!("{}/tests/data/{template}", env!("CARGO_MANIFEST_DIR"));
    let template = if PathBuf::from(&published).exists() { published } else { own };
    let words = ["-m", &model, "--chat-template-file", &template, "-c", "4096", "-np", "2", "--port", "0"];
    let server = Server::start(program(&[&words[..], &["-ngl", "0", "-md", &block], more].concat()));
    server.wait_ready();
    server
}

fn chat(server: &Server, body: &Value) -> String {
    let answer = server.ask("POST", "/v1/chat/completions", &body.to_string());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    body.to_owned()
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

fn question() -> Value {
    json!({
        "messages": [{"role": "user", "content": "How warm is it in Oslo?"}],
        "tools": [{"type": "function", "function": {
            "name": "weather",
            "description": "Tells the weather.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "enum": ["Oslo", "Paris"]},
                    "days": {"type": "integer", "enum": [1, 7]}
                },
                "required": ["city", "days"]
            }
        }}],
        "tool_choice": "required",
        "parallel_tool_calls": false,
        "chat_template_kwargs": {"enable_thinking": false},
        "max_tokens": 200,
        "seed": 1
    })
}

/// The arguments fit the tool.
fn check(call: &Value) {
    assert_eq!(call["function"]["name"], "weather", "{call}");
    let arguments = read(call["function"]["arguments"].as_str().unwrap());
    assert!(["Oslo", "Paris"].iter().any(|city| arguments["city"] == *city), "{call}");
    assert!([1, 7].iter().any(|days| arguments["days"] == *days), "{call}");
}

#[test]
fn tools_are_called_in_the_familys_markup() {
    for seat in SEATS {
        let server = start(seat, &[]);
        let mut body = question();
        let answer = read(&chat(&server, &body));
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
        check(&choice["message"]["tool_calls"][0]);

        // The same, piece by piece.
        body["stream"] = true.into();
        let (mut name, mut arguments) = (String::new(), String::new());
        for line in chat(&server, &body).lines().filter_map(|line| line.strip_prefix("data: {")) {
            let event = read(&format!("{{{line}"));
            for call in event["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten() {
                name += call["function"]["name"].as_str().unwrap_or_default();
                arguments += call["function"]["arguments"].as_str().unwrap_or_default();
            }
        }
        check(&json!({"function": {"name": name, "arguments": arguments}}));

        // A result goes back, and the text goes on from there.
        let call = choice["message"]["tool_calls"][0].clone();
        let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "{\"degrees\": 4}"});
        let said = json!({"role": "assistant", "content": "", "tool_calls": [call]});
        let body = json!({
            "messages": [question()["messages"][0].clone(), said, result],
            "tools": question()["tools"].clone(),
            "chat_template_kwargs": {"enable_thinking": false},
            "max_tokens": 12,
            "temperature": 0
        });
        let answer = read(&chat(&server, &body));
        assert!(answer["timings"]["cache_n"].as_u64().unwrap() > 100, "{answer}");
        assert_eq!(answer["usage"]["completion_tokens"], 12, "{answer}");
    }
}

/// With the block's guesses, and without: one text.
#[test]
fn guesses_of_the_block_change_no_answer() {
    for seat in SEATS {
        let ask = |source: &str| {
            let server = start(seat, &["--spec-type", source]);
            let body = json!({"prompt": "the", "n_predict": 40, "temperature": 0, "ignore_eos": true});
            let answer = server.ask("POST", "/completion", &body.to_string());
            read(answer.split_once("\r\n\r\n").unwrap().1)
        };
        let (without, with) = (ask("none"), ask(&format!("draft-{}", seat.2)));
        assert_eq!(without["content"], with["content"], "{}", seat.0);
        assert_eq!(without["timings"]["draft_n"].as_u64().unwrap_or(0), 0, "{without}");
    }
}

/// Thoughts and the text after them, by the tags that the prompt ends with.
#[test]
fn deepseeks_prompt_begins_a_thought() {
    let server = start(SEATS[2], &[]);
    let prompt = |thinking: bool| {
        let body = json!({
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
            "chat_template_kwargs": {"enable_thinking": thinking},
        });
        let answer = server.ask("POST", "/apply-template", &body.to_string());
        read(answer.split_once("\r\n\r\n").unwrap().1)["prompt"].as_str().unwrap().to_owned()
    };
    assert!(prompt(true).ends_with("Be brief.<｜User｜>Hi<｜Assistant｜><think>"), "{}", prompt(true));
    assert!(prompt(true).contains("Reasoning effort: 75"));
    assert!(prompt(false).ends_with("<｜User｜>Hi<｜Assistant｜></think>"), "{}", prompt(false));
    let mut body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8});
    let message = |body: &Value| read(&chat(&server, body))["choices"][0]["message"].clone();
    let thought = message(&body);
    assert!(thought["reasoning_content"].as_str().is_some_and(|text| !text.is_empty()), "{thought}");
    body["chat_template_kwargs"] = json!({"enable_thinking": false});
    let said = message(&body);
    assert!(said["content"].as_str().is_some_and(|text| !text.is_empty()), "{said}");
}
