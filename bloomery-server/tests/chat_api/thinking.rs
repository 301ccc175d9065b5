//! Reasoning: where it goes, how long it may be, how it is switched off and gone on with.

use serde_json::{Value, json};

use super::support::{THINKER, always_thinking, assembled, ok, post, serve, stream};

const CHAT: &str = "/v1/chat/completions";

fn body(more: Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 24, "temperature": 0, "seed": 1,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn budgets_close_the_thinking() {
    let app = serve(Some(&always_thinking()), |_| {});
    for name in ["reasoning_budget", "reasoning_budget_tokens", "thinking_budget_tokens"] {
        let unlimited = ok(&app, CHAT, body(json!({name: -1}))).await;
        let message = &unlimited["choices"][0]["message"];
        assert!(message["reasoning_content"].as_str().unwrap().len() > 40, "{message}");
        assert_eq!(message["content"], "");
        assert_eq!(unlimited["choices"][0]["finish_reason"], "length");
        let none = ok(&app, CHAT, body(json!({name: 0}))).await;
        let message = &none["choices"][0]["message"];
        assert_eq!(message.get("reasoning_content"), None, "{message}");
        assert!(!message["content"].as_str().unwrap().is_empty());
        let five = ok(&app, CHAT, body(json!({name: 5}))).await;
        let message = &five["choices"][0]["message"];
        let (thought, said) =
            (message["reasoning_content"].as_str().unwrap(), message["content"].as_str().unwrap());
        assert!(
            thought.split_whitespace().count() <= 5 && !thought.is_empty() && !said.is_empty(),
            "{message}"
        );
        assert_eq!(five["usage"]["completion_tokens"], 24);
        for wrong in [json!(-2), json!(2.5), json!("x")] {
            let (status, error) = post(&app, CHAT, body(json!({name: wrong}))).await;
            assert_eq!(status, 400, "{error}");
            assert!(error["error"]["message"].as_str().unwrap().contains(name));
        }
    }
    let closed = json!({"reasoning_budget": 3, "chat_template_kwargs": {"enable_thinking": false}});
    let message = ok(&app, CHAT, body(closed)).await["choices"][0]["message"].clone();
    assert_eq!(message.get("reasoning_content"), None);
}

#[tokio::test]
async fn the_message_of_the_budget_is_written_before_the_tag() {
    let app = serve(Some(&always_thinking()), |_| {});
    let more = json!({"reasoning_budget_tokens": 4, "reasoning_budget_message": " That is enough."});
    let message = ok(&app, CHAT, body(more)).await["choices"][0]["message"].clone();
    assert!(message["reasoning_content"].as_str().unwrap().ends_with("That is enough."), "{message}");
}

#[tokio::test]
async fn formats_say_where_thinking_goes() {
    let app = serve(Some(&always_thinking()), |_| {});
    let with = |format: &str| body(json!({"reasoning_budget": 4, "reasoning_format": format}));
    let apart = ok(&app, CHAT, with("deepseek")).await["choices"][0]["message"].clone();
    let auto = ok(&app, CHAT, with("auto")).await["choices"][0]["message"].clone();
    assert_eq!(apart, auto);
    let (thought, said) = (apart["reasoning_content"].as_str().unwrap(), apart["content"].as_str().unwrap());
    assert!(!thought.contains("think>") && !said.contains("think>"));
    let raw = ok(&app, CHAT, with("none")).await["choices"][0]["message"].clone();
    assert_eq!(raw.get("reasoning_content"), None);
    let content = raw["content"].as_str().unwrap();
    assert!(
        content.contains("</think>") && content.contains(thought) && content.ends_with(said),
        "{content}"
    );
    let legacy = ok(&app, CHAT, with("deepseek-legacy")).await["choices"][0]["message"].clone();
    assert_eq!(legacy["reasoning_content"].as_str(), Some(thought));
    assert!(legacy["content"].as_str().unwrap().contains("</think>"));
    for (format, same) in [("deepseek", &apart), ("none", &raw), ("deepseek-legacy", &raw)] {
        let (streamed, reason, _) = assembled(&stream(&app, CHAT, with(format)).await);
        assert_eq!((&streamed, &reason), (same, &json!("length")), "{format}");
    }
    assert_eq!(post(&app, CHAT, with("other")).await.0, 400);
}

async fn prompt(app: &std::sync::Arc<bloomery_server::app::App>, more: Value) -> String {
    let answer = ok(app, "/apply-template", body(more)).await;
    answer["prompt"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn switches_close_the_thinking_in_the_prompt() {
    let closed = "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    let off = [
        json!({"chat_template_kwargs": {"enable_thinking": false}}),
        json!({"reasoning_effort": "none"}),
        json!({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": true}}),
    ];
    for template in [THINKER.to_owned(), always_thinking()] {
        let app = serve(Some(&template), |_| {});
        for more in &off {
            assert!(prompt(&app, more.clone()).await.ends_with(closed), "{more}");
        }
        assert!(
            !prompt(&app, json!({"chat_template_kwargs": {"enable_thinking": true}})).await.ends_with(closed)
        );
        assert!(!prompt(&app, json!({})).await.ends_with(closed));
        let (status, _) = post(
            &app,
            "/apply-template",
            body(json!({"chat_template_kwargs": {"enable_thinking": "false"}})),
        )
        .await;
        assert_eq!(status, 400);
        for app in [
            serve(Some(&template), |options| options.reasoning = Some(false)),
            serve(Some(&template), |options| options.reasoning_budget = Some(0)),
        ] {
            assert!(prompt(&app, json!({})).await.ends_with(closed));
            let on = json!({"chat_template_kwargs": {"enable_thinking": true}});
            assert!(!prompt(&app, on).await.ends_with(closed));
        }
    }
}

#[tokio::test]
async fn a_schema_counts_after_the_thinking() {
    let app = serve(Some(&always_thinking()), |_| {});
    let more = json!({
        "reasoning_budget": 4, "response_format": {"type": "json_schema", "json_schema": {"schema": {"const": "foo"}}},
    });
    let answer = ok(&app, CHAT, body(more)).await;
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["content"], "\"foo\"");
    assert!(!message["reasoning_content"].as_str().unwrap().is_empty());
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn replies_go_on_in_content_and_in_reasoning() {
    let app = serve(Some(&always_thinking()), |_| {});
    let with = |message: Value, more: Value| {
        let mut body = body(more);
        body["messages"].as_array_mut().unwrap().push(message);
        body
    };
    let tail =
        |value: Value| value["prompt"].as_str().unwrap().rsplit("assistant\n").next().unwrap().to_owned();
    let both = json!({"role": "assistant", "content": "Once", "reasoning_content": "Hm"});
    for (message, more, expected) in [
        (json!({"role": "assistant", "content": "Once"}), json!({}), "<think>\n</think>\n\nOnce"),
        (both.clone(), json!({}), "<think>\nHm\n</think>\n\nOnce"),
        (both.clone(), json!({"continue_final_message": "reasoning_content"}), "<think>\nHm"),
        (
            both.clone(),
            json!({"continue_final_message": true, "add_generation_prompt": false}),
            "<think>\nHm\n</think>\n\nOnce",
        ),
    ] {
        assert_eq!(tail(ok(&app, "/apply-template", with(message, more)).await), expected);
    }
    let (status, _) = post(
        &app,
        CHAT,
        with(both.clone(), json!({"continue_final_message": true, "add_generation_prompt": true})),
    )
    .await;
    assert_eq!(status, 400);
    // The reply is what was added; with `echo` it is all.
    let added =
        ok(&app, CHAT, with(both.clone(), json!({"max_tokens": 5}))).await["choices"][0]["message"].clone();
    assert_eq!(added.get("reasoning_content"), None);
    let all = ok(&app, CHAT, with(both.clone(), json!({"max_tokens": 5, "echo": true}))).await["choices"][0]
        ["message"]
        .clone();
    assert_eq!(all["content"].as_str().unwrap(), format!("Once{}", added["content"].as_str().unwrap()));
    assert_eq!(all["reasoning_content"], "Hm");
    let in_thought =
        with(both, json!({"continue_final_message": "reasoning_content", "reasoning_budget": 3}));
    let message = ok(&app, CHAT, in_thought).await["choices"][0]["message"].clone();
    assert!(
        !message["reasoning_content"].as_str().unwrap().is_empty()
            && !message["content"].as_str().unwrap().is_empty()
    );
}
