//! D: native completion.

use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Answer, Server};

const PROMPT: &str = "Once upon a time";

fn greedy(extra: Value) -> Value {
    let mut body =
        json!({"prompt": PROMPT, "n_predict": 8, "temperature": 0, "seed": 42, "cache_prompt": false});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn text(value: &Value) -> &str {
    value["content"].as_str().unwrap()
}

#[test]
fn case_033_034_one_answer() {
    let server = Server::start(&[]);
    let value = server.ok("/completion", greedy(json!({})));
    let timings = &value["timings"];
    assert_eq!(timings["predicted_n"], 8);
    let prompt = timings["prompt_n"].as_u64().unwrap() + timings["cache_n"].as_u64().unwrap();
    assert_eq!(value["tokens_evaluated"], prompt);
    assert_eq!((&value["truncated"], &value["tokens"]), (&json!(false), &json!([])));
    assert!(value["has_new_line"].is_boolean());
    let value = server.ok("/completion", greedy(json!({"return_tokens": true})));
    let back = server.ok("/detokenize", json!({"tokens": value["tokens"]}));
    assert_eq!(value["tokens"].as_array().unwrap().len(), 8);
    assert_eq!(back["content"], value["content"]);
}

#[test]
fn case_035_036_a_stream() {
    let server = Server::start(&[]);
    let whole = server.ok("/completion", greedy(json!({})));
    let events = server.stream("/completion", greedy(json!({})));
    let events: Vec<Value> = events.iter().map(|event| event.json()).collect();
    let (last, chunks) = events.split_last().unwrap();
    assert!(chunks.iter().all(|chunk| chunk["stop"] == false && chunk["tokens"].is_array()));
    assert_eq!(chunks.iter().map(text).collect::<String>(), text(&whole));
    assert_eq!((&last["stop"], &last["stop_type"]), (&json!(true), &json!("limit")));
    assert_eq!(last["generation_settings"]["n_predict"], 8);
    assert!(last["timings"].is_object());
}

#[test]
fn case_037_038_seeds() {
    let servers = [Server::start(&["-np", "1"]), Server::start(&["-np", "2"])];
    let texts: Vec<String> = (0..4)
        .flat_map(|_| &servers)
        .map(|server| text(&server.ok("/completion", greedy(json!({})))).to_owned())
        .collect();
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    let seeded = |seed: u32| {
        let body = greedy(json!({"seed": seed, "temperature": 1.0, "n_predict": 24}));
        text(&servers[1].ok("/completion", body)).to_owned()
    };
    let texts: Vec<String> = (0..4).map(seeded).collect();
    assert!(texts.windows(2).all(|pair| pair[0] != pair[1]), "{texts:?}");
    assert_eq!(seeded(2), texts[2]);
}

#[test]
fn case_039_040_041_shapes_of_prompts() {
    let server = Server::start(&["-np", "2"]);
    let ids = server.ok("/tokenize", json!({"content": PROMPT, "add_special": true}))["tokens"].clone();
    let one = server.ok("/completion", greedy(json!({"prompt": ids})));
    for prompts in [json!([ids, ids]), json!([ids, PROMPT]), json!([ids, {"prompt_string": PROMPT}])] {
        let many = server.ok("/completion", greedy(json!({"prompt": prompts})));
        let [a, b] = many.as_array().unwrap().as_slice() else { panic!("{many}") };
        assert_eq!((text(a), text(b)), (text(&one), text(&one)));
    }
    assert!(server.ok("/completion", greedy(json!({"prompt": [1, 2, 3, "text", 7, 8]}))).is_object());
    server.ok("/completion", greedy(json!({"prompt": {"prompt_string": "x"}})));
    let media = json!({"prompt": {"prompt_string": "<__media__>", "multimodal_data": ["AAAA"]}});
    assert_eq!(server.post("/completion", greedy(media)).status, 400);
}

#[test]
fn case_042_043_134_the_end_of_the_context() {
    let server = Server::start(&["-c", "256", "-np", "1"]);
    for (length, status) in [(256, 400), (257, 400), (255, 200)] {
        for stream in [false, true] {
            let body = greedy(json!({"prompt": vec![10; length], "stream": stream}));
            let answer = server.post("/completion", body);
            assert_eq!(answer.status, status, "{length}");
            if status == 400 {
                let error = &answer.json()["error"];
                assert_eq!(error["type"], "exceed_context_size_error");
                assert_eq!((&error["n_prompt_tokens"], &error["n_ctx"]), (&json!(length), &json!(256)));
                let message = answer.error();
                assert!(message.contains("exceeds the available context size"));
                assert!(message.contains(&length.to_string()) && message.contains("256"));
            } else if !stream {
                assert_eq!(answer.json()["truncated"], true);
            }
        }
    }
    let value = server.ok("/completion", greedy(json!({"n_predict": -1, "ignore_eos": true})));
    assert_eq!(value["truncated"], true);
    let sum = value["tokens_evaluated"].as_u64().unwrap() + value["tokens_predicted"].as_u64().unwrap();
    assert_eq!(sum, 256);
}

#[test]
fn case_044_058_059_openai_completions() {
    let server = Server::start(&["-c", "128", "-np", "1"]);
    let body = json!({"model": "any", "prompt": PROMPT, "max_tokens": 4096, "temperature": 0,
        "cache_prompt": false, "ignore_eos": true});
    let whole = server.ok("/v1/completions", body.clone());
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(whole["model"], "bloomery-demo");
    let events = server.stream("/v1/completions", body);
    assert_eq!(events.last().unwrap().data, "[DONE]");
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|event| event.json()).collect();
    let (last, earlier) = chunks.split_last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "length");
    assert_eq!(last["usage"], whole["usage"]);
    assert!(earlier.iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
    assert!(earlier.iter().all(|chunk| chunk.get("usage").is_none()));
    let said: String = chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(whole["choices"][0]["text"], said);

    let body = json!({"prompt": PROMPT, "max_tokens": 60, "temperature": 0, "stop": ["man who", "zzz"]});
    let events = server.stream("/v1/completions", body);
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|event| event.json()).collect();
    let said: String = chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(said, " there was a ");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
}

#[test]
fn case_046_response_fields() {
    let server = Server::start(&[]);
    let wanted = ["content", "generation_settings/n_predict", "prompt"];
    let value = server.ok("/completion", greedy(json!({"response_fields": wanted})));
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(keys, wanted);
}

#[test]
fn case_047_048_049_probabilities() {
    let server = Server::start(&[]);
    let check = |entry: &Value| {
        assert!(entry["logprob"].as_f64().unwrap() <= 0.0 && entry["bytes"].is_array());
        let top = entry["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 10);
        assert!(top.iter().all(|top| top["logprob"].as_f64().unwrap().is_finite()));
    };
    let body = greedy(json!({"n_probs": 10, "n_predict": 5}));
    let value = server.ok("/completion", body.clone());
    let entries = value["completion_probabilities"].as_array().unwrap();
    assert_eq!(entries.len(), 5);
    entries.iter().for_each(check);
    for event in server.stream("/completion", body) {
        let event = event.json();
        if event["stop"] == false {
            let [entry] = event["completion_probabilities"].as_array().unwrap().as_slice() else { panic!() };
            check(entry);
        }
    }
    let body =
        greedy(json!({"n_probs": 10, "n_predict": 20, "post_sampling_probs": true, "temperature": 1.0}));
    for entry in server.ok("/completion", body)["completion_probabilities"].as_array().unwrap() {
        let top: Vec<f64> =
            entry["top_probs"].as_array().unwrap().iter().map(|top| top["prob"].as_f64().unwrap()).collect();
        assert!(top.iter().all(|&prob| prob > 0.0 && prob <= 1.0 + 1e-6));
        assert!(top.len() == 10 || (top.iter().sum::<f64>() - 1.0).abs() < 1e-4, "{entry}");
    }
}

#[test]
fn case_050_051_biases() {
    let server = Server::start(&[]);
    let words = [" there", " was", " a", " man"];
    let id = |word: &str| server.ok("/tokenize", json!({"content": word}))["tokens"][0].as_u64().unwrap();
    let pairs =
        |key: &dyn Fn(&str) -> Value| words.iter().map(|word| json!([key(word), -100])).collect::<Value>();
    let object = |key: &dyn Fn(&str) -> String| {
        Value::Object(words.iter().map(|word| (key(word), json!(-100))).collect())
    };
    for bias in [
        pairs(&|word| json!(id(word))),
        pairs(&|word| json!(word)),
        object(&|word| id(word).to_string()),
        object(&|word| word.to_owned()),
    ] {
        let value = server.ok("/completion", greedy(json!({"logit_bias": bias, "return_tokens": true})));
        let tokens = value["tokens"].as_array().unwrap();
        assert!(words.iter().all(|word| !tokens.contains(&json!(id(word)))), "{value}");
    }
    let value = server.ok("/completion", greedy(json!({"ignore_eos": true})));
    let biases = value["generation_settings"]["logit_bias"].as_array().unwrap().clone();
    assert!(!biases.is_empty() && biases.iter().all(|bias| bias["bias"].is_null()));
    let value = server.ok("/completion", greedy(json!({"ignore_eos": false})));
    assert_eq!(value["generation_settings"]["logit_bias"], json!([]));
}

#[test]
fn case_052_who_leaves_frees_the_slot() {
    let server = Server::start(&["-np", "1"]);
    // A slot that waits for its reader is busy for as long as the connection lives.
    let body = json!({"prompt": PROMPT, "ignore_eos": true, "n_predict": -1, "n_probs": 500, "stream": true});
    let mut connection = server.send("POST", "/completion", &body.to_string());
    connection.read_exact(&mut [0; 64]).unwrap();
    thread::sleep(Duration::from_millis(100));
    drop(connection);
    let start = Instant::now();
    server.idle_slots();
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn case_053_more_requests_than_slots() {
    let server = Server::start(&["-np", "2"]);
    let body = greedy(json!({"n_predict": 400, "ignore_eos": true})).to_string();
    let running: Vec<_> = (0..4).map(|_| server.send("POST", "/completion", &body)).collect();
    let mut most = 0;
    let start = Instant::now();
    while most < 2 && start.elapsed() < Duration::from_secs(5) {
        let slots = server.get("/slots").json();
        let busy = slots.as_array().unwrap().iter().filter(|slot| slot["is_processing"] == true).count();
        most = most.max(busy);
    }
    let answers: Vec<Answer> = running.into_iter().map(Answer::read).collect();
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert!(answers.iter().all(|answer| answer.json()["content"] == answers[0].json()["content"]));
    assert_eq!(most, 2);
}

#[test]
fn case_054_counts_add_up() {
    let server = Server::start(&["-np", "1"]);
    for round in 0..16 {
        let prompt =
            "The fox sat by the river. ".repeat(1 + (round % 4) * 7) + if round % 2 == 0 { "A" } else { "B" };
        let length = server.ok("/tokenize", json!({"content": prompt, "add_special": true}))["tokens"]
            .as_array()
            .unwrap()
            .len();
        let budget = 1 + round;
        let value =
            server.ok("/completion", json!({"prompt": prompt, "n_predict": budget, "ignore_eos": true}));
        let timings = &value["timings"];
        let sum = timings["prompt_n"].as_u64().unwrap() + timings["cache_n"].as_u64().unwrap();
        assert_eq!((sum, value["tokens_evaluated"].as_u64()), (length as u64, Some(length as u64)));
        assert_eq!(timings["predicted_n"], budget);
        assert!(timings["prompt_n"].as_u64().unwrap() > 0);
    }
}

#[test]
fn case_055_056_057_060_fields() {
    let server = Server::start(&[]);
    let value =
        server.ok("/completion", json!({"prompt": "x", "n_predict": 1, "foo": 1, "temperature": null}));
    let usual = &server.get("/props").json()["default_generation_settings"]["params"];
    assert_eq!(value["generation_settings"]["temperature"], usual["temperature"]);
    for (name, wrong) in [("top_k", json!("abc")), ("n_predict", json!(-5)), ("repeat_last_n", json!(-1))] {
        let answer = server.post("/completion", greedy(json!({name: wrong})));
        assert!(answer.status == 400 && answer.error().contains(name), "{}", answer.body);
    }
    assert_eq!(server.ok("/completion", greedy(json!({"top_p": 7})))["generation_settings"]["top_p"], 1.0);
    let plain = server.ok("/completion", greedy(json!({"repeat_penalty": 1.0})));
    let only = json!({"samplers": ["top_k"], "top_k": 1, "temperature": 2.0});
    assert_eq!(text(&server.ok("/completion", greedy(only))), text(&plain));
    for body in ["", "[1]", "{\"prompt\": \"x\"", "{\"prompt\":\"\u{7f}\\ud83d\",\"n_predict\":1}"] {
        let status = server.request("POST", "/completion", body).status;
        assert_eq!(status, if body.contains("ud83d") { 200 } else { 400 }, "{body}");
    }
}

#[test]
fn grammars_and_schemas() {
    let server = Server::start(&[]);
    let value = server.ok("/completion", greedy(json!({"grammar": "root ::= \"yes\" | \"no\""})));
    assert!(["yes", "no"].contains(&text(&value)));
    assert_eq!(value["stop_type"], "eos");
    let schema = json!({"const": "foooooo"});
    let value = server.ok("/completion", greedy(json!({"json_schema": schema, "n_predict": 40})));
    assert_eq!(text(&value), "\"foooooo\"");
    let both = json!({"json_schema": schema, "grammar": "root ::= \"a\"{5,5}"});
    assert_eq!(text(&server.ok("/completion", greedy(both))), "aaaaa");
    for bad in [json!({"grammar": "root ::= ("}), json!({"json_schema": {"type": "hiccup"}})] {
        for stream in [false, true] {
            let mut body = greedy(bad.clone());
            body["stream"] = json!(stream);
            assert_eq!(server.post("/completion", body).status, 400, "{bad}");
        }
    }
}
