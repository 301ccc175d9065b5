//! Whole conversations as agents hold them: a call that is forced, its result, an answer in words.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{THINKER, assembled, leave, ok, post, serve, stream};

fn weather() -> Value {
    json!({
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}, "days": {"type": "integer", "enum": [1, 2]}},
        "required": ["city", "days"], "additionalProperties": false,
    })
}

fn check_arguments(text: &str) {
    let arguments: Value = serde_json::from_str(text).unwrap();
    assert!(["Paris", "Rome"].contains(&arguments["city"].as_str().unwrap()), "{text}");
    assert!([1, 2].contains(&arguments["days"].as_i64().unwrap()), "{text}");
}

/// The templates to talk under: the model's own, which knows no tools, and one that thinks and calls.
const TEMPLATES: [Option<&str>; 2] = [None, Some(THINKER)];

#[tokio::test]
async fn an_openai_agent() {
    let tool = json!({"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a city", "strict": true, "parameters": weather(),
    }});
    let path = "/v1/chat/completions";
    for template in TEMPLATES {
        let app = serve(template, |_| {});
        for choice in [json!("required"), json!({"type": "function", "function": {"name": "get_weather"}})] {
            for streamed in [false, true] {
                let mut messages = vec![
                    json!({"role": "system", "content": "You are an agent."}),
                    json!({"role": "user", "content": [{"type": "text", "text": "Weather in Paris?"}]}),
                ];
                let mut body = json!({
                    "model": "gpt-4o", "messages": messages, "tools": [tool], "tool_choice": choice,
                    "parallel_tool_calls": false, "max_completion_tokens": 120, "reasoning_budget": 5, "temperature": 0,
                    "stream_options": {"include_usage": true}, "user": "u", "store": false, "metadata": {"a": "b"},
                });
                let (message, reason) = if streamed {
                    let (message, reason, last) = assembled(&stream(&app, path, body.clone()).await);
                    assert!(last["usage"]["total_tokens"].as_u64().unwrap() > 0);
                    (message, reason)
                } else {
                    let answer = ok(&app, path, body.clone()).await;
                    (answer["choices"][0]["message"].clone(), answer["choices"][0]["finish_reason"].clone())
                };
                assert_eq!(reason, "tool_calls", "{message}");
                let calls = message["tool_calls"].as_array().unwrap();
                assert_eq!(calls.len(), 1);
                assert_eq!(
                    (&calls[0]["type"], &calls[0]["function"]["name"]),
                    (&json!("function"), &json!("get_weather"))
                );
                check_arguments(calls[0]["function"]["arguments"].as_str().unwrap());
                let id = calls[0]["id"].clone();
                assert_eq!(id.as_str().unwrap().len(), 32);
                messages.push(message);
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": "Sunny, 20 degrees."}));
                body["messages"] = json!(messages);
                body["tool_choice"] = json!("none");
                body["max_completion_tokens"] = json!(12);
                let (message, reason) = if streamed {
                    let (message, reason, _) = assembled(&stream(&app, path, body).await);
                    (message, reason)
                } else {
                    let answer = ok(&app, path, body).await;
                    (answer["choices"][0]["message"].clone(), answer["choices"][0]["finish_reason"].clone())
                };
                assert_eq!(message.get("tool_calls"), None);
                assert!(!message["content"].as_str().unwrap().is_empty());
                assert_ne!(reason, "tool_calls");
            }
        }
    }
}

/// What the SDK makes of the events of a message.
fn message_of(events: &[(String, Value)]) -> Value {
    let mut message = Value::Null;
    let mut json_text = String::new();
    for (name, data) in events {
        assert_eq!(data["type"], **name);
        let delta = &data["delta"];
        let at = data["index"].as_u64().unwrap_or_default() as usize;
        match name.as_str() {
            "message_start" => message = data["message"].clone(),
            "content_block_start" => {
                let blocks = message["content"].as_array_mut().unwrap();
                assert_eq!(at, blocks.len());
                blocks.push(data["content_block"].clone());
                json_text.clear();
            }
            "content_block_delta" => match delta["type"].as_str().unwrap() {
                "input_json_delta" => json_text.push_str(delta["partial_json"].as_str().unwrap()),
                kind => {
                    let key = kind.trim_end_matches("_delta");
                    let before = message["content"][at][key].as_str().unwrap().to_owned();
                    message["content"][at][key] = json!(before + delta[key].as_str().unwrap());
                }
            },
            "content_block_stop" if !json_text.is_empty() => {
                message["content"][at]["input"] = serde_json::from_str(&json_text).unwrap();
            }
            "message_delta" => {
                message["stop_reason"] = delta["stop_reason"].clone();
                message["stop_sequence"] = delta["stop_sequence"].clone();
            }
            _ => {}
        }
    }
    assert_eq!(events.last().unwrap().0, "message_stop");
    message
}

#[tokio::test]
async fn claude_code() {
    let path = "/v1/messages?beta=true";
    for template in TEMPLATES {
        let app = serve(template, |_| {});
        for choice in [
            json!({"type": "any", "disable_parallel_tool_use": true}),
            json!({"type": "tool", "name": "Weather", "disable_parallel_tool_use": true}),
        ] {
            for streamed in [false, true] {
                let ephemeral = json!({"type": "ephemeral"});
                let mut messages = vec![json!({"role": "user", "content": [
                    {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"},
                    {"type": "text", "text": "Weather in Rome?", "cache_control": ephemeral},
                ]})];
                let mut body = json!({
                    "model": "claude-sonnet-4-5", "max_tokens": 160, "temperature": 0, "metadata": {"user_id": "u"},
                    "system": [
                        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=0a1b2;"},
                        {"type": "text", "text": "You are Claude Code.", "cache_control": ephemeral},
                    ],
                    "tools": [
                        {"name": "Weather", "description": "Weather of a city", "input_schema": weather(), "cache_control": ephemeral},
                        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
                    ],
                    "tool_choice": choice, "messages": messages, "context_management": {"edits": []}, "betas": ["x"],
                    "thinking": {"type": "enabled", "budget_tokens": 5},
                });
                let message = match streamed {
                    true => message_of(&stream(&app, path, body.clone()).await),
                    false => ok(&app, path, body.clone()).await,
                };
                assert_eq!(message["stop_reason"], "tool_use", "{message}");
                assert!(message.as_object().unwrap().contains_key("stop_sequence"));
                let call = message["content"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .find(|block| block["type"] == "tool_use")
                    .unwrap();
                assert_eq!(call["name"], "Weather");
                check_arguments(&call["input"].to_string());
                messages.push(json!({"role": "assistant", "content": message["content"]}));
                messages.push(json!({"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": "Sunny."}], "is_error": false},
                    {"type": "text", "text": "And?", "cache_control": ephemeral},
                    {"type": "something_new", "data": 1},
                ]}));
                messages.push(json!({"role": "system", "content": "The user is in Rome."}));
                body["messages"] = json!(messages);
                body["tool_choice"] = json!({"type": "none"});
                body["max_tokens"] = json!(10);
                let count = ok(&app, "/v1/messages/count_tokens", body.clone()).await;
                let message = match streamed {
                    true => message_of(&stream(&app, path, body).await),
                    false => ok(&app, path, body).await,
                };
                assert_eq!(message["content"][0]["type"], "text", "{message}");
                assert!(!message["content"][0]["text"].as_str().unwrap().is_empty());
                let usage = &message["usage"];
                let used = usage["input_tokens"].as_u64().unwrap()
                    + usage["cache_read_input_tokens"].as_u64().unwrap();
                assert_eq!(count, json!({"input_tokens": used}));
            }
        }
    }
}

#[tokio::test]
async fn codex() {
    let path = "/v1/responses";
    for template in TEMPLATES {
        let app = serve(template, |_| {});
        for choice in [json!("required"), json!({"type": "function", "name": "weather"})] {
            for streamed in [false, true] {
                let text = |text: &str| json!([{"type": "input_text", "text": text}]);
                let mut input = vec![
                    json!({"type": "message", "role": "developer", "content": text("Permissions: none.")}),
                    json!({"type": "message", "role": "user", "content": text("Weather in Rome?")}),
                ];
                let mut body = json!({
                    "model": "gpt-5-codex", "instructions": "You are Codex.", "input": input,
                    "tools": [
                        {"type": "function", "name": "weather", "description": "d", "strict": false, "parameters": weather()},
                        {"type": "web_search"}, {"type": "custom", "name": "apply_patch", "format": {}}, {"type": "local_shell"},
                    ],
                    "tool_choice": choice, "parallel_tool_calls": false, "reasoning": {"effort": "medium", "summary": "auto"},
                    "reasoning_budget": 5, "store": false, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k",
                    "temperature": 0, "max_output_tokens": 160,
                });
                let finished = |events: Vec<(String, Value)>| {
                    let (name, data) = events.last().unwrap();
                    assert_eq!(name, "response.completed");
                    data["response"].clone()
                };
                let response = match streamed {
                    true => finished(stream(&app, path, body.clone()).await),
                    false => ok(&app, path, body.clone()).await,
                };
                assert_eq!(response["status"], "completed", "{response}");
                let output = response["output"].as_array().unwrap();
                let call = output.iter().find(|item| item["type"] == "function_call").unwrap();
                assert_eq!(call["name"], "weather");
                check_arguments(call["arguments"].as_str().unwrap());
                input.push(json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": null, "encrypted_content": ""}));
                input.extend(output.iter().cloned());
                input.push(
                    json!({"type": "function_call_output", "call_id": call["call_id"], "output": "Sunny."}),
                );
                body["input"] = json!(input);
                body["tool_choice"] = json!("none");
                body["max_output_tokens"] = json!(10);
                let response = match streamed {
                    true => finished(stream(&app, path, body).await),
                    false => ok(&app, path, body).await,
                };
                let last = response["output"].as_array().unwrap().last().unwrap();
                assert_eq!(last["type"], "message");
                assert!(!last["content"][0]["text"].as_str().unwrap().is_empty());
                let (status, error) =
                    post(&app, path, json!({"input": "x", "previous_response_id": response["id"]})).await;
                assert_eq!(status, 400, "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_jobs() {
    let app = serve(None, |_| {});
    let endless = json!({
        "messages": [{"role": "user", "content": "Go on."}], "max_tokens": -1, "ignore_eos": true, "n": 2,
        "max_output_tokens": 900, "input": "Go on.",
    });
    let mut cancelled = 0;
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        for streamed in [true, false] {
            let mut body = endless.clone();
            body["stream"] = json!(streamed);
            let answered = leave(&app, path, body).await;
            let start = Instant::now();
            let mut status = app.scheduler.status();
            while status.busy() > 0 || (status.counters.cancelled == cancelled && !answered) {
                assert!(start.elapsed() < Duration::from_secs(2), "{path} {streamed}: {status:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
                status = app.scheduler.status();
            }
            cancelled = status.counters.cancelled;
        }
    }
}
