//! E: chat.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Server, SseEvent, data, scratch};

const CHAT: &str = "/v1/chat/completions";

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

/// A greedy chat of 8 tokens, changed by `more`.
fn body(more: Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "system", "content": "Book"}, {"role": "user", "content": "What is the best book?"}],
        "max_tokens": 8, "temperature": 0, "seed": 42,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

/// The chunks of a stream that ends as it should.
fn chunks(events: &[SseEvent]) -> Vec<Value> {
    let (done, rest) = events.split_last().unwrap();
    assert_eq!(done.data, "[DONE]");
    rest.iter().map(SseEvent::json).collect()
}

fn streamed(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

/// A template of another model.
pub(crate) fn template(name: &str) -> PathBuf {
    data(&format!("bloomery-core/tests/data/chat/templates/{name}"))
}

/// A server with the template of another model.
pub(crate) fn server_of(name: &str, words: &[&str]) -> Server {
    let path = template(name);
    let mut all = vec!["--jinja", "--chat-template-file", path.to_str().unwrap()];
    all.extend(words);
    Server::start(&all)
}

fn prompt(server: &Server, more: Value) -> String {
    let answer = server.ok("/apply-template", body(more));
    answer["prompt"].as_str().unwrap().to_owned()
}

#[test]
fn case_061_a_reply_that_is_cut() {
    let server = Server::start(&["-a", "demo-alias"]);
    let answer = server.ok(CHAT, body(json!({})));
    assert!(answer["id"].as_str().unwrap().contains("cmpl"));
    assert!(answer["system_fingerprint"].as_str().unwrap().starts_with('b'));
    assert_eq!(answer["model"], "demo-alias");
    assert_eq!(answer["choices"][0]["message"]["role"], "assistant");
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    let number = |name: &str| answer["usage"][name].as_u64().unwrap();
    assert_eq!(number("completion_tokens"), 8);
    assert_eq!(number("total_tokens"), number("prompt_tokens") + 8);
    assert!(!content(&answer).is_empty());
}

#[test]
fn case_062_parts_of_text() {
    let server = Server::start(&[]);
    let parts = json!([{"type": "text", "text": "What is"}, {"type": "text", "text": "the best book"}]);
    let answer = server.ok(CHAT, body(json!({"messages": [{"role": "user", "content": parts}]})));
    let joined = server.ok(CHAT, body(json!({"messages": user("What is\nthe best book")})));
    assert_eq!(content(&answer), content(&joined));
}

#[test]
fn case_063_what_is_known_of_a_prompt() {
    let server = Server::start(&["-np", "1"]);
    let cached = |text: &str| {
        let answer = server.ok(CHAT, body(json!({"messages": user(text)})));
        let usage = &answer["usage"];
        (
            usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap(),
            usage["prompt_tokens"].as_u64().unwrap(),
        )
    };
    assert_eq!(cached("Tell me of the old king and his son.").0, 0);
    let (known, all) = cached("Tell me of the old king and his son.");
    assert_eq!(known, all - 1);
    let (known, all) = cached("Tell me of the old king and his daughters, please.");
    assert!(known > 5 && known < all - 3, "{known} of {all}");
}

#[test]
fn case_064_a_stream() {
    let server = Server::start(&["-a", "demo-alias"]);
    let chunks = chunks(&server.stream(CHAT, body(json!({}))));
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": null}));
    let (last, rest) = chunks.split_last().unwrap();
    for chunk in &chunks {
        assert_eq!((&chunk["id"], &chunk["model"]), (&chunks[0]["id"], &json!("demo-alias")));
        assert_eq!(chunk["object"], "chat.completion.chunk");
    }
    for chunk in &rest[1..] {
        assert!(chunk["choices"][0]["delta"].get("role").is_none());
        assert_eq!(chunk["choices"][0]["finish_reason"], Value::Null);
    }
    assert_eq!(last["choices"][0], json!({"finish_reason": "length", "index": 0, "delta": {}}));
    assert_eq!(streamed(&chunks), content(&server.ok(CHAT, body(json!({})))));
}

#[test]
fn case_065_usage_and_timings_of_a_stream() {
    let server = Server::start(&[]);
    let more =
        json!({"max_tokens": 10, "stream_options": {"include_usage": true}, "timings_per_token": true});
    let chunks = chunks(&server.stream(CHAT, body(more)));
    assert!(chunks[0].get("timings").is_none());
    assert!(chunks[1]["timings"]["predicted_n"].is_u64());
    let (last, rest) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["completion_tokens"].as_u64().unwrap() <= 10);
    assert!(last["timings"]["predicted_n"].as_u64().unwrap() <= 10);
    assert!(rest.iter().all(|chunk| chunk["choices"].as_array().unwrap().len() == 1));
}

#[test]
fn case_066_a_stream_without_usage() {
    let server = Server::start(&[]);
    for more in
        [json!({}), json!({"stream_options": {"include_usage": false}}), json!({"stream_options": null})]
    {
        for chunk in chunks(&server.stream(CHAT, body(more))) {
            assert_eq!(chunk["choices"].as_array().unwrap().len(), 1);
            assert!(chunk.get("usage").is_none());
        }
    }
}

#[test]
fn case_067_verbose() {
    let server = Server::start(&[]);
    let rendered = prompt(&server, json!({}));
    let answer = server.ok(CHAT, body(json!({"verbose": true})));
    assert!(answer["__verbose"]["prompt"].as_str().unwrap().contains(&rendered));
    assert_eq!(answer["__verbose"]["generation_settings"]["n_predict"], 8);
    assert!(server.ok(CHAT, body(json!({"verbose": false}))).get("__verbose").is_none());
    let chunks = chunks(&server.stream(CHAT, body(json!({"verbose": true}))));
    let verbose: Vec<&Value> = chunks.iter().filter_map(|chunk| chunk.get("__verbose")).collect();
    assert_eq!(verbose.len(), 1);
    assert!(verbose[0]["prompt"].as_str().unwrap().contains(&rendered));
}

#[test]
fn case_068_the_prompt_of_a_chat() {
    let server = Server::start(&[]);
    assert_eq!(
        prompt(&server, json!({})),
        "<|im_start|>system\nBook<|im_end|>\n<|im_start|>user\nWhat is the best book?<|im_end|>\n<|im_start|>assistant\n"
    );
}

#[test]
fn case_069_a_reply_that_has_begun() {
    let server = Server::start(&[]);
    for begun in [json!("Whill"), json!([{"type": "text", "text": "Whill"}])] {
        let messages = json!([{"role": "user", "content": "Who?"}, {"role": "assistant", "content": begun}]);
        let prompt = prompt(&server, json!({"messages": messages}));
        assert!(prompt.ends_with("<|im_start|>assistant\nWhill"), "{prompt}");
    }
    let off = Server::start(&["--no-prefill-assistant"]);
    let messages = json!([{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Whill"}]);
    assert!(
        prompt(&off, json!({"messages": messages})).ends_with("Whill<|im_end|>\n<|im_start|>assistant\n")
    );
}

#[test]
fn case_070_going_on_by_name() {
    let server = Server::start(&[]);
    let messages = json!([{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Whill"}]);
    let named = json!({"messages": messages, "continue_final_message": true, "add_generation_prompt": false});
    assert_eq!(prompt(&server, named), prompt(&server, json!({"messages": messages})));
    let both = json!({"messages": messages, "continue_final_message": true, "add_generation_prompt": true});
    assert_eq!(server.post(CHAT, body(both)).status, 400);
    let calls = json!([{"function": {"name": "f", "arguments": "{}"}}]);
    let messages =
        json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "tool_calls": calls}]);
    let named = json!({"messages": messages, "continue_final_message": true, "add_generation_prompt": false});
    assert_eq!(server.post(CHAT, body(named)).status, 400);
}

#[test]
fn case_071_a_prompt_without_the_head_of_a_reply() {
    let server = Server::start(&[]);
    let prompt = prompt(&server, json!({"add_generation_prompt": false}));
    assert!(prompt.ends_with("best book?<|im_end|>\n"), "{prompt}");
}

#[test]
fn case_072_schemas() {
    let server = Server::start(&[]);
    for (format, expected) in [
        (json!({"type": "json_schema", "json_schema": {"schema": {"const": "foooooo"}}}), "\"foooooo\""),
        (json!({"type": "json_object", "schema": {"const": "42"}}), "\"42\""),
    ] {
        let more = json!({"response_format": format, "max_tokens": 20});
        assert_eq!(content(&server.ok(CHAT, body(more.clone()))), expected);
        assert_eq!(streamed(&chunks(&server.stream(CHAT, body(more)))), expected);
    }
    let answer = server.ok(CHAT, body(json!({"json_schema": {"const": "x"}, "max_tokens": 20})));
    assert_eq!((content(&answer), &answer["choices"][0]["finish_reason"]), ("\"x\"", &json!("stop")));
}

#[test]
fn case_073_any_object() {
    let server = Server::start(&[]);
    let answer = server.ok(CHAT, body(json!({"response_format": {"type": "json_object"}})));
    assert!(content(&answer).trim_start().starts_with('{'), "{answer}");
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

#[test]
fn case_074_formats_that_are_none() {
    let server = Server::start(&[]);
    for format in [
        json!({"type": "sound"}),
        json!({"type": "json_object", "schema": 123}),
        json!({"type": "json_schema", "json_schema": {"schema": {"type": "hiccup"}}}),
    ] {
        let answer = server.post(CHAT, body(json!({"response_format": format})));
        assert_eq!(
            (answer.status, answer.json()["error"]["type"].as_str()),
            (400, Some("invalid_request_error"))
        );
    }
}

#[test]
fn case_075_grammars() {
    let server = Server::start(&[]);
    let answer = server.ok(CHAT, body(json!({"grammar": "root ::= \"a\"{5,5}", "max_tokens": 20})));
    assert_eq!(content(&answer), "aaaaa");
    let answer = server.post(CHAT, body(json!({"grammar": "root ::= a b c"})));
    assert_eq!(answer.status, 400);
    assert!(answer.error().contains("Failed to initialize samplers"), "{}", answer.body);
    let both = json!({"grammar": "root ::= \"a\"", "json_schema": {"type": "object"}});
    assert_eq!(server.post(CHAT, body(both)).status, 400);
}

#[test]
fn case_076_messages_that_are_none() {
    let server = Server::start(&[]);
    for messages in [
        Value::Null,
        json!("string"),
        json!([123]),
        json!([{}]),
        json!([{"role": 123}]),
        json!([{"role": "system", "content": 123}]),
        json!([{"role": "user", "content": "hi"}, {}]),
        json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]),
    ] {
        let answer = server.post(CHAT, body(json!({"messages": messages})));
        assert_eq!(answer.status, 400, "{messages}: {}", answer.body);
        assert!(!answer.error().is_empty());
    }
    server.ok(CHAT, body(json!({"messages": [], "max_tokens": 2})));
}

#[test]
fn case_077_probabilities_of_tokens() {
    let server = Server::start(&[]);
    let more = json!({"logprobs": true, "top_logprobs": 10, "max_tokens": 5});
    let answer = server.ok(CHAT, body(more.clone()));
    let check = |entries: &[Value], text: &str| {
        let joined: String = entries.iter().map(|entry| entry["token"].as_str().unwrap()).collect();
        assert_eq!(joined, text);
        for entry in entries {
            assert!(entry["logprob"].as_f64().unwrap() <= 0.0 && entry["bytes"].is_array());
            assert_eq!(entry["top_logprobs"].as_array().unwrap().len(), 10);
        }
    };
    check(answer["choices"][0]["logprobs"]["content"].as_array().unwrap(), content(&answer));
    let chunks = chunks(&server.stream(CHAT, body(more)));
    let lists = chunks.iter().filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array());
    let entries: Vec<Value> = lists.flatten().cloned().collect();
    check(&entries, &streamed(&chunks));
    assert_eq!(streamed(&chunks), content(&answer));
}

#[test]
fn case_078_alternatives_without_probabilities() {
    let server = Server::start(&[]);
    assert_eq!(server.post(CHAT, body(json!({"top_logprobs": 5}))).status, 400);
    assert_eq!(server.post(CHAT, body(json!({"top_logprobs": 5, "logprobs": false}))).status, 400);
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let answer = server.post(CHAT, body(json!({"logprobs": true, "tools": tools, "stream": true})));
    assert_eq!(answer.status, 400);
}

#[test]
fn case_079_a_prompt_that_does_not_fit() {
    let server = Server::start(&["-np", "2"]);
    let context = server.get("/props").json()["default_generation_settings"]["n_ctx"].clone();
    let mut messages = Vec::new();
    for _ in 0..100 {
        messages.push(json!({"role": "user", "content": "What is the best book of all?"}));
        messages.push(json!({"role": "assistant", "content": "It is the book of books."}));
    }
    messages.push(json!({"role": "user", "content": "And now?"}));
    for stream in [false, true] {
        let answer = server.post(CHAT, body(json!({"messages": messages, "stream": stream})));
        assert_eq!(answer.status, 400);
        assert!(answer.header("content-type").unwrap().starts_with("application/json"));
        let error = answer.json()["error"].clone();
        assert_eq!((&error["type"], &error["n_ctx"]), (&json!("exceed_context_size_error"), &context));
        assert!(error["n_prompt_tokens"].as_u64().unwrap() > context.as_u64().unwrap());
        assert!(error["message"].as_str().unwrap().contains("exceeds the available context size"));
    }
}

#[test]
fn case_080_progress_of_a_prompt() {
    let server = Server::start(&["-np", "1", "-b", "32", "-ub", "32"]);
    let text = "The old king had a son who was very rich. ".repeat(20);
    let told = |text: &str| -> Vec<[u64; 3]> {
        let chunks =
            chunks(&server.stream(CHAT, body(json!({"messages": user(text), "return_progress": true}))));
        let first_role = chunks.iter().position(|chunk| chunk.get("prompt_progress").is_none()).unwrap();
        assert!(chunks[first_role..].iter().all(|chunk| chunk.get("prompt_progress").is_none()));
        let progress = chunks.iter().filter_map(|chunk| chunk.get("prompt_progress"));
        progress
            .map(|told| {
                assert!(told["time_ms"].is_number());
                ["total", "cache", "processed"].map(|name| told[name].as_u64().unwrap())
            })
            .collect()
    };
    let check = |told: &[[u64; 3]]| {
        assert_eq!(told[0][1], told[0][2]);
        assert!(
            told.windows(2).all(|pair| pair[0][..2] == pair[1][..2] && pair[0][2] < pair[1][2]),
            "{told:?}"
        );
        let last = told.last().unwrap();
        assert_eq!(last[0], last[2]);
    };
    let cold = told(&text);
    check(&cold);
    assert!(cold.len() > 3 && cold[0][1] == 0, "{cold:?}");
    let warm = told(&format!("{text} And then?"));
    check(&warm);
    assert!(warm[0][1] > 0, "{warm:?}");
}

#[test]
fn case_081_several_choices() {
    let server = Server::start(&["-np", "2"]);
    for _ in 0..2 {
        let answer = server.ok(CHAT, body(json!({"n": 2, "id_slot": 0, "temperature": 0.8})));
        assert_eq!(answer["choices"].as_array().unwrap().len(), 2);
        assert_eq!((&answer["choices"][0]["index"], &answer["choices"][1]["index"]), (&json!(0), &json!(1)));
        assert_eq!(answer["usage"]["completion_tokens"], 16);
    }
    assert_eq!(server.post(CHAT, body(json!({"n": 3}))).status, 400);
    let chunks =
        chunks(&server.stream(CHAT, body(json!({"n": 2, "stream_options": {"include_usage": true}}))));
    for index in 0..2 {
        let own = |chunk: &&Value| chunk["choices"][0]["index"] == index;
        let finished =
            chunks.iter().filter(own).filter(|chunk| !chunk["choices"][0]["finish_reason"].is_null()).count();
        let roles = chunks
            .iter()
            .filter(own)
            .filter(|chunk| chunk["choices"][0]["delta"].get("role").is_some())
            .count();
        assert_eq!((finished, roles), (1, 1));
    }
    assert_eq!(chunks.last().unwrap()["usage"]["completion_tokens"], 16);
}

#[test]
fn case_082_the_count_of_tokens() {
    let server = Server::start(&[]);
    let used = server.ok(CHAT, body(json!({})))["usage"]["prompt_tokens"].clone();
    for path in ["/chat/completions/input_tokens", "/v1/chat/completions/input_tokens"] {
        let answer = server.ok(path, body(json!({})));
        assert_eq!(answer, json!({"object": "response.input_tokens", "input_tokens": used}));
    }
}

#[test]
fn case_083_any_model() {
    let server = Server::start(&["-a", "demo-alias"]);
    for more in [json!({}), json!({"model": null}), json!({"model": "gpt-4o"})] {
        for path in [CHAT, "/chat/completions"] {
            assert_eq!(server.ok(path, body(more.clone()))["model"], "demo-alias");
        }
    }
}

#[test]
fn case_084_the_switch_of_thinking() {
    let server = server_of("Qwen-Qwen3-0.6B.jinja", &[]);
    let with = |on: Value| json!({"chat_template_kwargs": {"enable_thinking": on}});
    let off = prompt(&server, with(json!(false)));
    let on = prompt(&server, with(json!(true)));
    assert!(
        off.ends_with("<think>\n\n</think>\n\n") && on.ends_with("<|im_start|>assistant\n"),
        "{off} {on}"
    );
    assert_eq!(server.post("/apply-template", body(with(json!("false")))).status, 400);
}

#[test]
fn case_085_thinking_is_off() {
    for name in ["Qwen-Qwen3-0.6B.jinja", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja"] {
        for words in [["--reasoning", "off"], ["--reasoning-budget", "0"]] {
            let prompt = prompt(&server_of(name, &words), json!({}));
            let (_, block) = prompt.rsplit_once("<think>").unwrap();
            assert_eq!(block.trim(), "</think>", "{name}: {prompt}");
        }
        let prompt = prompt(&server_of(name, &[]), json!({}));
        assert!(!prompt.contains("</think>"), "{name}: {prompt}");
    }
}

#[test]
fn case_086_the_date() {
    let path = scratch("date.jinja");
    std::fs::write(&path, "{{ strftime_now('%Y-%m-%d') }}{{ messages[0].content }}").unwrap();
    let server = Server::start(&["--chat-template-file", path.to_str().unwrap()]);
    let output = std::process::Command::new("date").arg("+%Y-%m-%d").output().unwrap();
    let today = String::from_utf8(output.stdout).unwrap();
    assert!(prompt(&server, json!({})).starts_with(today.trim()));
}

#[test]
fn case_131_budgets_of_thinking() {
    let server = server_of("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", &[]);
    let with = |budget: Value| body(json!({"max_tokens": 24, "reasoning_budget": budget}));
    let message = |budget: Value| server.ok(CHAT, with(budget))["choices"][0]["message"].clone();
    let free = message(json!(-1));
    assert!(!free["reasoning_content"].as_str().unwrap().is_empty() && free["content"] == "", "{free}");
    let none = message(json!(0));
    assert!(none.get("reasoning_content").is_none() && !none["content"].as_str().unwrap().is_empty());
    let five = message(json!(5));
    let thought = five["reasoning_content"].as_str().unwrap();
    let tokens = server.ok("/tokenize", json!({"content": thought}))["tokens"].as_array().unwrap().len();
    assert!((1..=5).contains(&tokens) && !five["content"].as_str().unwrap().is_empty(), "{five}");
    for wrong in [json!(-2), json!(2.5), json!("x")] {
        assert_eq!(server.post(CHAT, with(wrong)).status, 400);
    }
    let mut closed = with(json!(5));
    closed["reasoning_effort"] = json!("none");
    assert!(server.ok(CHAT, closed)["choices"][0]["message"].get("reasoning_content").is_none());
}

#[test]
fn requests_of_old_and_new_clients_are_served() {
    let server = Server::start(&[]);
    // A lone surrogate, unknown fields, nulls, a name twice.
    let text = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\\ud83dy\"}],\"max_tokens\":9,\"max_tokens\":2,\"temperature\":null,\"frobnicate\":{}}";
    let answer = server.request("POST", CHAT, text);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json()["usage"]["completion_tokens"], 2);
    let control = |body: Value| server.post("/v1/chat/completions/control", body);
    assert_eq!(control(json!({"id": "x", "action": "reasoning_end"})).json()["success"], false);
    assert_eq!(
        (
            control(json!({"action": "reasoning_end"})).status,
            control(json!({"id": "x", "action": "y"})).status
        ),
        (400, 400)
    );
}
