//! Requests that are odd, wrong or combined, and what a template has to say.

use serde_json::{Value, json};

use super::support::{THINKER, assembled, ok, post, post_text, serve, stream};

const CHAT: &str = "/v1/chat/completions";

fn body(more: Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 90, "temperature": 0, "seed": 1,
        "reasoning_budget": 3,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": false,
    }}})
}

#[tokio::test]
async fn the_template_says_why_it_refuses() {
    let template = "{% if messages[0].content == 'no' %}{{ raise_exception('Not this one.') }}{% endif %}{{ messages[0].content }}";
    let app = serve(Some(template), |_| {});
    let refused = body(json!({"messages": [{"role": "user", "content": "no"}]}));
    for path in [CHAT, "/apply-template", "/v1/chat/completions/input_tokens"] {
        let (status, error) = post(&app, path, refused.clone()).await;
        assert_eq!((status, error["error"]["message"].as_str()), (400, Some("Not this one.")));
    }
    let (status, error) = post(&app, "/v1/messages", refused.clone()).await;
    assert_eq!((status, error["type"].as_str()), (400, Some("error")));
    let (status, error) = post(&app, "/v1/responses", json!({"input": "no"})).await;
    assert_eq!((status, error["error"]["message"].as_str()), (400, Some("Not this one.")));
}

#[tokio::test]
async fn without_templates_there_are_no_tools() {
    let app = serve(None, |options| options.jinja = false);
    let (status, error) = post(&app, CHAT, body(json!({"tools": [tool("f")]}))).await;
    assert_eq!(
        (status, error["error"]["message"].as_str()),
        (400, Some("tools param requires --jinja flag"))
    );
    assert_eq!(post(&app, CHAT, body(json!({"tool_choice": "required"}))).await.0, 400);
    ok(&app, CHAT, body(json!({"tool_choice": "auto", "tools": []}))).await;
}

#[tokio::test]
async fn a_schema_beside_tools_leaves_the_choice() {
    let format = json!({"type": "json_schema", "json_schema": {"schema": {"const": "said"}}});
    for template in [None, Some(THINKER)] {
        let app = serve(template, |_| {});
        let answer = ok(&app, CHAT, body(json!({"tools": [tool("f")], "response_format": format}))).await;
        let choice = &answer["choices"][0];
        match choice["finish_reason"].as_str().unwrap() {
            "stop" => assert_eq!(choice["message"]["content"], "\"said\""),
            "tool_calls" => assert_eq!(choice["message"]["tool_calls"][0]["function"]["name"], "f"),
            other => panic!("{other}: {choice}"),
        }
        let forced = json!({"tools": [tool("f")], "response_format": format, "tool_choice": "required", "parallel_tool_calls": false});
        let answer = ok(&app, CHAT, body(forced)).await;
        assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls", "{answer}");
        let wrong = json!({"type": "json_schema", "json_schema": {"schema": {"type": "hiccup"}}});
        assert_eq!(
            post(&app, CHAT, body(json!({"tools": [tool("f")], "response_format": wrong}))).await.0,
            400
        );
    }
}

#[tokio::test]
async fn several_calls_have_their_own_places() {
    let app = serve(Some(THINKER), |_| {});
    let body = body(
        json!({"tools": [tool("f")], "tool_choice": "required", "parallel_tool_calls": true, "max_tokens": 90}),
    );
    let (message, reason, _) = assembled(&stream(&app, CHAT, body.clone()).await);
    let calls = message["tool_calls"].as_array().unwrap();
    assert!(!calls.is_empty());
    for (at, call) in calls.iter().enumerate() {
        assert!(calls[..at].iter().all(|other| other["id"] != call["id"]));
        let whole = at + 1 < calls.len() || reason == "tool_calls";
        assert!(
            !whole
                || call["function"]["arguments"].as_str().unwrap().parse::<Value>().unwrap()
                    == json!({"a": 1})
        );
    }
    let answer = ok(&app, CHAT, body).await;
    assert_eq!(answer["choices"][0]["message"]["tool_calls"].as_array().unwrap().len(), calls.len());
}

#[tokio::test]
async fn lone_halves_of_characters_do_not_end_a_session() {
    let app = serve(None, |_| {});
    for (path, text) in [
        (CHAT, r#"{"messages":[{"role":"user","content":"x\ud83dy"}],"max_tokens":2}"#),
        (
            "/v1/messages",
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"\udd8a"}]}],"max_tokens":2}"#,
        ),
        ("/v1/responses", r#"{"input":"x\ud83d","max_output_tokens":2}"#),
    ] {
        let (status, answer) = post_text(&app, path, text.to_owned()).await;
        assert_eq!(status, 200, "{answer}");
    }
}

#[tokio::test]
async fn bodies_that_are_none_are_refused() {
    let app = serve(None, |_| {});
    let deep = format!("{{\"messages\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    for path in [CHAT, "/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/apply-template"] {
        for text in ["", "{", "[1,2]", "null", deep.as_str()] {
            let (status, error) = post_text(&app, path, text.to_owned()).await;
            assert_eq!((status, error["error"]["code"].as_u64()), (400, Some(400)), "{path}: {error}");
        }
    }
}

#[tokio::test]
async fn system_messages_may_stand_anywhere() {
    let strict = "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be first.') }}{% endif %}[{{ m.role }}: {{ m.content }}]{% endfor %}";
    let app = serve(Some(strict), |_| {});
    let messages = json!([
        {"role": "developer", "content": "a"}, {"role": "system", "content": [{"type": "text", "text": "b"}]},
        {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}, {"role": "system", "content": "e"},
    ]);
    let answer = ok(&app, "/apply-template", body(json!({"messages": messages}))).await;
    assert_eq!(answer["prompt"], "[system: a\n\nb][user: c][assistant: d][user: e]");
}

/// The templates of models that write calls in different ways.
fn templates() -> Vec<(String, String)> {
    let directory =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../bloomery-core/tests/data/chat/templates");
    let mut all: Vec<(String, String)> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    all.sort();
    assert!(all.len() > 8);
    all
}

#[tokio::test]
async fn every_template_can_be_called_through() {
    for (name, source) in templates() {
        let app = serve(Some(&source), |_| {});
        let forced = body(json!({
            "tools": [tool("g")], "parallel_tool_calls": false, "max_tokens": 150,
            "tool_choice": {"type": "function", "function": {"name": "g"}},
        }));
        let answer = ok(&app, CHAT, forced.clone()).await;
        let message = answer["choices"][0]["message"].clone();
        assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls", "{name}: {message}");
        let call = &message["tool_calls"][0];
        assert_eq!(call["function"]["name"], "g", "{name}");
        let arguments: Value = call["function"]["arguments"].as_str().unwrap().parse().unwrap();
        assert_eq!(arguments, json!({"a": 1}), "{name}");
        let (streamed, reason, _) = assembled(&stream(&app, CHAT, forced).await);
        assert_eq!(reason, "tool_calls", "{name}: {streamed}");
        assert_eq!(streamed["tool_calls"][0]["function"], call["function"], "{name}");
        let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "the result"});
        let history = json!([{"role": "user", "content": "Hi"}, message, result]);
        let next =
            body(json!({"messages": history, "tools": [tool("g")], "tool_choice": "none", "max_tokens": 4}));
        let prompt = ok(&app, "/apply-template", next.clone()).await["prompt"].clone();
        assert!(prompt.as_str().unwrap().contains("the result"), "{name}: {prompt}");
        let answer = ok(&app, CHAT, next).await;
        assert!(answer["choices"][0]["message"].get("tool_calls").is_none(), "{name}");
    }
}

#[tokio::test]
async fn every_template_keeps_to_a_schema() {
    let format = json!({"type": "json_schema", "json_schema": {"schema": {"const": "said"}}});
    for (name, source) in templates() {
        let app = serve(Some(&source), |_| {});
        let answer = ok(&app, CHAT, body(json!({"response_format": format}))).await;
        let message = &answer["choices"][0]["message"];
        assert_eq!(message["content"], "\"said\"", "{name}: {message}");
        assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{name}");
    }
}
