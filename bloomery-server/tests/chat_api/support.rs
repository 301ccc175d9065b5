//! A server without sockets on the demo model, under any template.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bloomery_core::chat::ChatTemplate;
use bloomery_core::scheduler::{Scheduler, SchedulerOptions};
use bloomery_core::{Engine, ModelSource};
use bloomery_server::api::answer;
use bloomery_server::app::App;
use bloomery_server::http::{Query, Reply, ReplyBody, Request};
use bloomery_server::options::ServeOptions;
use http_body_util::BodyExt;
use hyper::{HeaderMap, Method};
use serde_json::{Value, json};

/// Turns of ChatML with reasoning, tools and calls, in the manner of Qwen3.
pub(super) const THINKER: &str = "{%- if tools %}{{- '<|im_start|>system\\n<tools>' }}{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}{{- '\\n</tools>\\nUse <tool_call>{\"name\", \"arguments\"}</tool_call>.<|im_end|>\\n' }}{%- endif %}{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}{%- if message.reasoning_content %}{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{%- endif %}{{- message.content }}{%- for call in message.tool_calls or [] %}{{- '\\n<tool_call>\\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}";

/// The same, for a model that always thinks.
pub(super) fn always_thinking() -> String {
    format!("{{%- if add_generation_prompt %}}{{%- set opened = true %}}{{%- endif %}}{}{{%- if opened %}}{{{{- '<think>\\n' }}}}{{%- endif %}}",
        THINKER.replace("{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}", ""))
}

/// A server with two slots.
pub(super) fn serve(template: Option<&str>, change: impl FnOnce(&mut ServeOptions)) -> Arc<App> {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let load = || Engine::builder(ModelSource::demo()).sessions(16).plan().unwrap().load(|_| {}).unwrap();
    let engine = ENGINE.get_or_init(load).clone();
    let scheduler =
        Scheduler::new(engine, SchedulerOptions { slots: 2, ..SchedulerOptions::default() }).unwrap();
    let mut options = ServeOptions { aliases: vec!["demo".to_owned()], ..ServeOptions::default() };
    change(&mut options);
    let template = template.map(|source| ChatTemplate::new(source, "<|endoftext|>", "<|im_end|>").unwrap());
    Arc::new(App::new(scheduler, options, template).unwrap())
}

async fn send(app: &Arc<App>, path: &str, body: String) -> Reply {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let request = Request {
        method: Method::POST,
        path: path.to_owned(),
        query: Query(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()),
        headers: HeaderMap::new(),
        body: body.into(),
    };
    answer(app, request).await
}

/// Sends a request and goes away as soon as it runs. True: it was answered before that.
pub(super) async fn leave(app: &Arc<App>, path: &str, body: Value) -> bool {
    let busy = async {
        while app.scheduler.status().busy() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let reply = send(app, path, body.to_string());
    if body["stream"] == true {
        let ReplyBody::Events(mut events) = reply.await.body else { panic!("{path}: no stream") };
        events.frame().await;
        return false;
    }
    tokio::select! {
        _ = reply => true,
        () = busy => false,
    }
}

/// Status and JSON of an answer that is no stream.
pub(super) async fn post_text(app: &Arc<App>, path: &str, body: String) -> (u16, Value) {
    let reply = send(app, path, body).await;
    let ReplyBody::Whole(bytes) = reply.body else { panic!("{path}: a stream") };
    (reply.status.as_u16(), serde_json::from_slice(&bytes).unwrap())
}

/// The same for a JSON body.
pub(super) async fn post(app: &Arc<App>, path: &str, body: Value) -> (u16, Value) {
    post_text(app, path, body.to_string()).await
}

/// The JSON of a success.
pub(super) async fn ok(app: &Arc<App>, path: &str, body: Value) -> Value {
    let (status, value) = post(app, path, body).await;
    assert_eq!(status, 200, "{path}: {value}");
    value
}

/// The events of a stream: name and data. `[DONE]` is a string.
pub(super) async fn stream(app: &Arc<App>, path: &str, mut body: Value) -> Vec<(String, Value)> {
    body["stream"] = json!(true);
    let reply = send(app, path, body.to_string()).await;
    let mut events = match reply.body {
        ReplyBody::Events(events) => events,
        ReplyBody::Whole(bytes) => panic!("{path}: {}", String::from_utf8_lossy(&bytes)),
    };
    assert_eq!((reply.status.as_u16(), reply.content_type), (200, "text/event-stream"));
    let mut text = String::new();
    while let Some(frame) = events.frame().await {
        text.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
    }
    assert!(text.ends_with("\n\n") && !text.contains('\r'), "{text}");
    text.trim_end().split("\n\n").map(event).collect()
}

fn event(text: &str) -> (String, Value) {
    let (name, data) = match text.split_once('\n') {
        Some((name, data)) => (name.strip_prefix("event: ").unwrap().to_owned(), data),
        None => (String::new(), text),
    };
    let data = data.strip_prefix("data: ").unwrap();
    (name, if data == "[DONE]" { json!(data) } else { serde_json::from_str(data).unwrap() })
}

/// What a client makes of the chunks of one choice: message, reason, and the last chunk before `[DONE]`.
pub(super) fn assembled(events: &[(String, Value)]) -> (Value, Value, Value) {
    let mut message = json!({ "role": null, "content": "" });
    let mut reason = Value::Null;
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(done.1, "[DONE]");
    for (_, chunk) in chunks {
        let Some(choice) = chunk["choices"].get(0) else { continue };
        let delta = choice["delta"].as_object().unwrap();
        if let Some(role) = delta.get("role") {
            assert_eq!(message["role"], Value::Null);
            message["role"] = role.clone();
        }
        for key in ["content", "reasoning_content"] {
            if let Some(text) = delta.get(key).and_then(Value::as_str) {
                let before = message[key].as_str().unwrap_or_default();
                message[key] = json!(format!("{before}{text}"));
            }
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let index = call["index"].as_u64().unwrap() as usize;
            if message["tool_calls"].is_null() {
                message["tool_calls"] = json!([]);
            }
            let calls = message["tool_calls"].as_array_mut().unwrap();
            if index == calls.len() {
                let function = json!({ "name": call["function"]["name"], "arguments": "" });
                calls.push(json!({ "type": call["type"], "id": call["id"], "function": function }));
            } else {
                assert!(
                    call.get("id").is_none()
                        && call.get("type").is_none()
                        && call["function"].get("name").is_none()
                );
            }
            let text = call["function"]["arguments"].as_str().unwrap();
            let before = calls[index]["function"]["arguments"].as_str().unwrap().to_owned();
            calls[index]["function"]["arguments"] = json!(before + text);
        }
        if !choice["finish_reason"].is_null() {
            assert!(delta.is_empty() && reason.is_null());
            reason = choice["finish_reason"].clone();
        }
    }
    (message, reason, chunks.last().unwrap().1.clone())
}
