//! `/v1/completions`.

use serde_json::json;

use super::*;

#[tokio::test]
async fn one_choice_with_the_recorded_keys() {
    let body = json!({"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, "logprobs": 2});
    let value = ok(&shared(), "/v1/completions", body).await;
    let wanted = ["choices", "created", "model", "system_fingerprint", "object", "usage", "id", "timings"];
    assert_eq!(keys(&value), wanted);
    let choice = &value["choices"][0];
    assert_eq!(keys(choice), ["text", "index", "logprobs", "finish_reason"]);
    assert_eq!(choice["text"], " there was a man who had a son");
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(choice["logprobs"]["content"].as_array().unwrap().len(), 8);
    assert_eq!(value["usage"]["total_tokens"], 12);
    assert!(value["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert!(value["system_fingerprint"].as_str().unwrap().starts_with('b'));
}

#[tokio::test]
async fn choices_of_prompts_times_n() {
    let body = json!({"prompt": ["A", "B"], "n": 2, "max_tokens": 3, "seed": 5, "temperature": 1.5});
    let value = ok(&shared(), "/v1/completions", body).await;
    let choices = value["choices"].as_array().unwrap();
    assert!(choices.iter().enumerate().all(|(index, choice)| choice["index"] == index));
    assert_eq!(choices.len(), 4);
    assert_eq!(value["usage"]["prompt_tokens"], 2);
    assert_eq!(value["usage"]["completion_tokens"], 12);
    let alone = json!({"prompt": "A", "max_tokens": 3, "seed": 6, "temperature": 1.5});
    let alone = ok(&shared(), "/v1/completions", alone).await;
    assert_eq!(alone["choices"][0]["text"], choices[1]["text"]);
}

#[tokio::test]
async fn a_stream_ends_with_usage_and_done() {
    let app = shared();
    let body = json!({"prompt": ["Once", "A"], "max_tokens": 4, "temperature": 0, "stream": true});
    let events = stream(&app, "/v1/completions", body.clone()).await;
    assert_eq!(events.last().unwrap(), "[DONE]");
    let events = &events[..events.len() - 1];
    let finished = events.iter().filter(|event| !event["choices"][0]["finish_reason"].is_null());
    assert_eq!(finished.count(), 2);
    assert!(events.iter().all(|event| event["id"] == events[0]["id"]));
    let with_usage: Vec<_> = events.iter().filter(|event| event.get("usage").is_some()).collect();
    assert_eq!(with_usage, [events.last().unwrap()]);
    assert_eq!(with_usage[0]["usage"]["completion_tokens"], 8);
    let mut whole = body;
    whole["stream"] = json!(false);
    let whole = ok(&app, "/v1/completions", whole).await;
    for index in 0..2 {
        let of = events.iter().map(|event| &event["choices"][0]).filter(|choice| choice["index"] == index);
        let said: String = of.map(|choice| choice["text"].as_str().unwrap()).collect();
        assert_eq!(whole["choices"][index]["text"], said);
    }
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused() {
    for (name, value) in [("echo", json!(true)), ("best_of", json!(2)), ("suffix", json!("x"))] {
        let (status, answer) = post(&shared(), "/v1/completions", &json!({"prompt": "A", name: value})).await;
        assert!(status == 400 && answer["error"]["message"].as_str().unwrap().contains(name), "{answer}");
    }
    let body =
        json!({"prompt": "A", "echo": false, "best_of": 1, "suffix": "", "max_tokens": 1, "user": "u"});
    ok(&shared(), "/v1/completions", body).await;
}
