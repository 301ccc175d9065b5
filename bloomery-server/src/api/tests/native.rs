//! `/completion`.

use bloomery_core::scheduler::Event;
use serde_json::{Value, json};

use super::*;

const PROMPT: &str = "Once upon a time";

fn greedy(extra: Value) -> Value {
    let mut body = json!({"prompt": PROMPT, "n_predict": 12, "temperature": 0, "seed": 7});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn the_final_object_has_the_recorded_keys_in_their_order() {
    let value = ok(&shared(), "/completion", greedy(json!({"n_probs": 1}))).await;
    let wanted = "index content tokens id_slot stop model tokens_predicted tokens_evaluated generation_settings \
        prompt has_new_line truncated stop_type stopping_word tokens_cached timings completion_probabilities";
    assert_eq!(keys(&value), wanted.split_whitespace().collect::<Vec<_>>());
    let wanted = "seed temperature dynatemp_range dynatemp_exponent top_k top_p min_p top_n_sigma xtc_probability \
        xtc_threshold typical_p repeat_last_n repeat_penalty presence_penalty frequency_penalty dry_multiplier \
        dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers mirostat mirostat_tau mirostat_eta \
        adaptive_target adaptive_decay stop max_tokens n_predict n_keep n_discard ignore_eos stream logit_bias \
        n_probs min_keep grammar grammar_lazy grammar_triggers preserved_tokens chat_format reasoning_format \
        reasoning_in_content generation_prompt samplers speculative.types timings_per_token post_sampling_probs \
        backend_sampling lora";
    assert_eq!(keys(&value["generation_settings"]), wanted.split_whitespace().collect::<Vec<_>>());
    assert_eq!(value["generation_settings"]["top_p"].to_string(), "0.949999988079071");
    assert_eq!(value["content"], " there was a man who had a son who had a son");
    assert_eq!(value["prompt"], PROMPT);
    assert_eq!(value["tokens_cached"], 15);
    assert_eq!(value["model"], "demo");
}

#[tokio::test]
async fn counts_add_up() {
    let app = serve(1, |_| {});
    for round in 0..3 {
        for (budget, reuse) in [(0, true), (1, true), (5, false), (16, true)] {
            let body = greedy(json!({"n_predict": budget, "cache_prompt": reuse}));
            let value = ok(&app, "/completion", body).await;
            let timings = &value["timings"];
            let number = |name: &str| timings[name].as_f64().unwrap();
            assert_eq!(number("cache_n") + number("prompt_n"), 4.0, "round {round}: {timings}");
            assert_eq!(timings["predicted_n"], budget);
            assert!(number("prompt_ms") > 0.0);
            assert!(timings.as_object().unwrap().values().all(|value| value.as_f64().unwrap() >= 0.0));
            assert_eq!(number("predicted_per_second") > 0.0, budget > 1);
            if !reuse {
                assert_eq!(timings["cache_n"], 0);
            }
        }
    }
}

#[tokio::test]
async fn a_stream_says_the_same_as_a_whole_answer() {
    let app = shared();
    for extra in [json!({}), json!({"stop": ["had a son who had a dog", "zzz"]}), json!({"n_predict": 1})] {
        let mut body = greedy(extra);
        let whole = ok(&app, "/completion", body.clone()).await;
        body["stream"] = json!(true);
        let events = stream(&app, "/completion", body).await;
        let (last, chunks) = events.split_last().unwrap();
        let said: String = chunks.iter().map(text).collect();
        assert_eq!(said, text(&whole));
        assert!(chunks.iter().all(|chunk| chunk["stop"] == false && chunk["tokens"].is_array()));
        assert_eq!((text(last), &last["tokens"], &last["stop"]), ("", &json!([]), &json!(true)));
        assert_eq!(last["generation_settings"]["stream"], true);
        assert_eq!(last["stop_type"], whole["stop_type"]);
    }
}

#[tokio::test]
async fn prompts_of_every_shape() {
    let app = shared();
    let ids = ok(&app, "/tokenize", json!({"content": PROMPT})).await["tokens"].clone();
    let said = |value: &Value| text(value).to_owned();
    let plain = said(&ok(&app, "/completion", greedy(json!({}))).await);
    for prompt in [ids.clone(), json!({"prompt_string": PROMPT}), json!([PROMPT]), json!([ids.clone()])] {
        assert_eq!(said(&ok(&app, "/completion", greedy(json!({"prompt": prompt}))).await), plain);
    }
    let many =
        ok(&app, "/completion", greedy(json!({"prompt": [ids, PROMPT, {"prompt_string": PROMPT}]}))).await;
    let many = many.as_array().unwrap();
    assert_eq!(many.len(), 3);
    assert!(many.iter().enumerate().all(|(index, value)| said(value) == plain && value["index"] == index));
    let mixed = ok(&app, "/completion", greedy(json!({"prompt": [10, "abc", 20]}))).await;
    assert_eq!((mixed["prompt"].as_str(), &mixed["tokens_evaluated"]), (Some("+abc5"), &json!(4)));
    for wrong in [
        json!(7),
        json!([]),
        json!([1, [2]]),
        json!({"text": "x"}),
        json!([99999]),
        json!([-1]),
        json!([1.5]),
    ] {
        let (status, value) = post(&app, "/completion", &greedy(json!({"prompt": wrong}))).await;
        assert_eq!(status, 400, "{value}");
    }
    let (status, _) = post(&app, "/completion", &json!({"n_predict": 2})).await;
    assert_eq!(status, 400);
    let media = json!({"prompt": {"prompt_string": "<__media__>", "multimodal_data": ["AAAA"]}});
    assert_eq!(post(&app, "/completion", &greedy(media)).await.0, 400);
}

#[tokio::test]
async fn more_prompts_than_slots_and_an_empty_one_among_them() {
    let app = shared();
    let prompts: Vec<&str> = std::iter::repeat_n("A", 9).chain([""]).chain(["B"]).collect();
    let value = ok(&app, "/completion", greedy(json!({"prompt": prompts, "n_predict": 2, "n": 2}))).await;
    let values = value.as_array().unwrap();
    assert_eq!(values.len(), 22);
    for (index, value) in values.iter().enumerate() {
        assert_eq!(value["index"], index);
        assert_eq!(value["stop_type"], if index / 2 == 9 { "none" } else { "limit" });
    }
}

#[tokio::test]
async fn an_empty_prompt_has_an_empty_answer() {
    let app = shared();
    let value = ok(&app, "/completion", greedy(json!({"prompt": ""}))).await;
    assert_eq!((text(&value), value["stop_type"].as_str()), ("", Some("none")));
    assert_eq!((&value["tokens_predicted"], &value["tokens_evaluated"]), (&json!(0), &json!(0)));
    let events = stream(&app, "/completion", greedy(json!({"prompt": "", "stream": true}))).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["stop"], true);
}

#[tokio::test]
async fn stops_are_not_part_of_the_text_nor_of_the_probabilities() {
    let app = shared();
    let body = greedy(json!({"stop": ["", " man who"], "n_probs": 2, "return_tokens": true}));
    let value = ok(&app, "/completion", body).await;
    assert_eq!(text(&value), " there was a");
    assert_eq!(
        (value["stop_type"].as_str(), value["stopping_word"].as_str()),
        (Some("word"), Some(" man who"))
    );
    assert_eq!(value["tokens"].as_array().unwrap().len(), 5);
    let entries = value["completion_probabilities"].as_array().unwrap();
    let joined: String = entries.iter().map(|entry| entry["token"].as_str().unwrap()).collect();
    assert_eq!(joined, " there was a");
}

#[tokio::test]
async fn probabilities() {
    let app = shared();
    let value = ok(&app, "/completion", greedy(json!({"n_probs": 10, "n_predict": 5}))).await;
    let entries = value["completion_probabilities"].as_array().unwrap();
    assert_eq!(entries.len(), 5);
    for entry in entries {
        assert_eq!(keys(entry), ["id", "token", "bytes", "logprob", "top_logprobs"]);
        let top = entry["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 10);
        let logprobs: Vec<f64> = top.iter().map(|top| top["logprob"].as_f64().unwrap()).collect();
        assert!(logprobs.is_sorted_by(|a, b| a >= b) && logprobs[0] <= 0.0);
    }
    let body = greedy(json!({"n_probs": 10, "n_predict": 5, "post_sampling_probs": true, "temperature": 1.0,
        "stream": true}));
    for event in stream(&app, "/completion", body).await {
        if event["stop"] == true {
            assert!(event.get("completion_probabilities").is_none());
            continue;
        }
        let entry = &event["completion_probabilities"][0];
        assert_eq!(keys(entry), ["id", "token", "bytes", "prob", "top_probs"]);
        let top = entry["top_probs"].as_array().unwrap();
        let sum: f64 = top.iter().map(|top| top["prob"].as_f64().unwrap()).sum();
        assert!(top.iter().all(|top| top["prob"].as_f64().unwrap() > 0.0));
        assert!(sum < 1.0 + 1e-5 && (top.len() == 10 || sum > 1.0 - 1e-5), "{entry}");
    }
}

#[tokio::test]
async fn progress_and_timings_in_a_stream() {
    let app = serve(1, |_| {});
    let body = json!({"prompt": "word ".repeat(600), "n_predict": 2, "temperature": 0, "stream": true,
        "return_progress": true, "timings_per_token": true});
    for round in 0..2 {
        let events = stream(&app, "/completion", body.clone()).await;
        let progress: Vec<&Value> = events.iter().filter_map(|event| event.get("prompt_progress")).collect();
        let number = |value: &Value, name: &str| value[name].as_u64().unwrap();
        let (first, last) = (progress[0], progress[progress.len() - 1]);
        assert_eq!(number(first, "processed"), number(first, "cache"));
        assert_eq!(number(last, "processed"), number(last, "total"));
        assert!(progress.is_sorted_by(|a, b| number(a, "processed") < number(b, "processed")));
        assert_eq!(number(first, "cache") > 0, round > 0);
        assert_eq!(events[0]["timings"]["prompt_n"], 0);
        assert!(events.iter().all(|event| event["timings"]["prompt_ms"].is_f64()));
    }
}

#[tokio::test]
async fn fields_are_checked_by_name() {
    let app = shared();
    for (name, value) in [
        ("top_k", json!("abc")),
        ("n_predict", json!(-5)),
        ("repeat_last_n", json!(-1)),
        ("temperature", json!("hot")),
        ("stream", json!(1)),
        ("stop", json!(7)),
        ("stop", json!([7])),
        ("seed", json!(1_u64 << 40)),
        ("n", json!(3)),
        ("n", json!(0)),
        ("id_slot", json!("x")),
        ("logprobs", json!(1.5)),
        ("dry_sequence_breakers", json!([])),
        ("adaptive_decay", json!(1.0)),
        ("samplers", json!(7)),
        ("response_fields", json!({})),
        ("lora", json!([{"id": 0, "scale": 1.0}])),
        ("sse_ping_interval", json!(-2)),
        ("t_max_predict_ms", json!(-2)),
        ("repeat_penalty", json!(1e300)),
    ] {
        let (status, answer) = post(&app, "/completion", &greedy(json!({name: value}))).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(&format!("'{name}'")), "{name} {value}: {status} {answer}");
    }
    let body = greedy(json!({"top_p": 7, "temperature": -1, "foo": 1, "top_k": null, "n_predict": 2.0,
        "samplers": ["top-k", "nucleus", "infill"], "min_p": -1, "id_slot": 77}));
    let settings = &ok(&app, "/completion", body).await["generation_settings"];
    assert_eq!((&settings["top_p"], &settings["temperature"]), (&json!(1.0), &json!(0.0)));
    assert_eq!((&settings["top_k"], &settings["n_predict"]), (&json!(40), &json!(2)));
    assert_eq!(settings["samplers"], json!(["top_k", "top_p"]));
}

#[tokio::test]
async fn biases_in_four_forms() {
    let app = shared();
    let ids = ok(&app, "/tokenize", json!({"content": " there"})).await["tokens"].clone();
    let id = ids[0].as_u64().unwrap();
    for bias in [
        json!([[id, -100]]),
        json!([[" there", false]]),
        json!({id.to_string(): -100}),
        json!({" there": -100}),
    ] {
        let value = ok(&app, "/completion", greedy(json!({"logit_bias": bias, "n_predict": 1}))).await;
        assert_eq!(text(&value), ",", "{bias}");
        assert_eq!(value["generation_settings"]["logit_bias"][0]["token"], id);
    }
    for skipped in [json!([[99999, 1]]), json!([[1]]), json!([[1, true]]), json!("x"), json!({"5": "x"})] {
        let value = ok(&app, "/completion", greedy(json!({"logit_bias": skipped}))).await;
        assert_eq!(value["generation_settings"]["logit_bias"], json!([]));
    }
    let value = ok(&app, "/completion", greedy(json!({"ignore_eos": true}))).await;
    let biases = value["generation_settings"]["logit_bias"].as_array().unwrap();
    assert!(!biases.is_empty() && biases.iter().all(|bias| bias["bias"].is_null()));
}

#[tokio::test]
async fn a_full_context_and_a_prompt_that_fills_it() {
    let app = shared();
    let context = app.context();
    for (length, wanted) in [(context, 400), (context + 1, 400), (context - 1, 200)] {
        let (status, value) =
            post(&app, "/completion", &greedy(json!({"prompt": vec![10; length], "ignore_eos": true}))).await;
        assert_eq!(status, wanted, "{length}: {value}");
        if status == 400 {
            let error = &value["error"];
            assert_eq!(error["type"], "exceed_context_size_error");
            assert_eq!((&error["n_prompt_tokens"], &error["n_ctx"]), (&json!(length), &json!(context)));
            assert!(error["message"].as_str().unwrap().contains("exceeds the available context size"));
        } else {
            assert_eq!((&value["truncated"], &value["stop_type"]), (&json!(true), &json!("limit")));
            assert_eq!(value["tokens_predicted"], 1);
        }
    }
    let body = greedy(json!({"n_predict": -1, "ignore_eos": true, "prompt": vec![10; context - 30]}));
    let value = ok(&app, "/completion", body).await;
    assert_eq!((&value["tokens_predicted"], &value["truncated"]), (&json!(30), &json!(true)));
}

#[tokio::test]
async fn response_fields_and_tokens() {
    let app = shared();
    let body =
        greedy(json!({"response_fields": ["content", "generation_settings/n_predict", "x", "prompt"]}));
    let value = ok(&app, "/completion", body).await;
    assert_eq!(keys(&value), ["content", "generation_settings/n_predict", "prompt"]);
    let value = ok(&app, "/completion", greedy(json!({"return_tokens": true}))).await;
    let back = ok(&app, "/detokenize", json!({"tokens": value["tokens"]})).await;
    assert_eq!(back["content"], value["content"]);
}

#[tokio::test]
async fn a_line_that_is_indented_less_ends_the_answer() {
    let app = shared();
    let plain = ok(&app, "/completion", greedy(json!({"prompt": [10, 20, 30]}))).await;
    assert!(text(&plain).starts_with("\n\nTHERE"));
    let body = greedy(json!({"prompt": [10, 20, 30], "n_indent": 4}));
    let value = ok(&app, "/completion", body).await;
    assert_eq!((text(&value), value["stop_type"].as_str()), ("\n\n", Some("limit")));
}

#[tokio::test]
async fn dropping_a_stream_frees_the_slot() {
    let app = serve(1, |_| {});
    let body = greedy(json!({"n_predict": -1, "ignore_eos": true, "stream": true}));
    let reply = answer(&app, request(Method::POST, "/completion", body.to_string())).await;
    busy(&app, 1).await;
    drop(reply);
    busy(&app, 0).await;
}

#[tokio::test]
async fn a_silent_stream_gets_comments_and_a_closed_one_says_so() {
    use crate::api::generation::Generation;
    use crate::api::jobs::Jobs;
    use crate::api::outlet::Outlet;
    use crate::http::{ClientGone, Events};
    let app = serve(1, |_| {});
    let body = greedy(json!({"n_predict": -1, "ignore_eos": true, "stream": true}));
    let running = answer(&app, request(Method::POST, "/completion", body.to_string())).await;
    let generation = Generation::read(&app, body.as_object().unwrap()).unwrap();
    let mut waiting = Jobs::submit(&app, vec![vec![10]], &generation, Vec::new(), Value::Null).unwrap();
    let (sender, mut events) = Events::channel();
    let mut outlet = Outlet::new(sender, Some(std::time::Duration::from_millis(5)));
    let read = async {
        for _ in 0..3 {
            assert_eq!(events.frame().await.unwrap().unwrap().into_data().unwrap(), ":\n\n");
        }
        drop(events);
    };
    let (next, ()) = tokio::join!(outlet.next(&mut waiting), read);
    assert_eq!(next.map(|_| ()), Err(ClientGone));
    drop(running);
    assert!(matches!(waiting.next().await, Some((0, Event::Started { .. }))));
}
