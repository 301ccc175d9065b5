//! C: props, models, slots, metrics.

use serde_json::{Value, json};

use crate::support::Server;

fn metric(page: &str, name: &str) -> f64 {
    let prefix = format!("llamacpp:{name} ");
    page.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap().parse().unwrap()
}

fn sum(answers: &[Value], name: &str) -> f64 {
    answers.iter().map(|answer| answer["timings"][name].as_f64().unwrap()).sum()
}

#[test]
fn case_020_props() {
    let server = Server::start(&["-np", "3", "-s", "42"]);
    let props = server.get("/props").json();
    assert!(props["model_path"].as_str().unwrap().contains(".gguf"));
    assert_eq!(props["total_slots"], 3);
    assert_eq!(props["default_generation_settings"]["params"]["seed"], 42);
    assert!(!props["chat_template"].as_str().unwrap().is_empty());
    let context = props["default_generation_settings"]["n_ctx"].as_u64().unwrap() as usize;
    assert_eq!(server.post("/completion", json!({"prompt": vec![10; context], "n_predict": 1})).status, 400);
    server.ok("/completion", json!({"prompt": vec![10; context - 1], "n_predict": 1}));
}

#[test]
fn case_021_022_models() {
    let server = Server::start(&["--alias", "a2,fim,code", "--tags", "x,y"]);
    for path in ["/models", "/v1/models"] {
        let models = server.get(path).json();
        let [model] = models["data"].as_array().unwrap().as_slice() else { panic!("{models}") };
        assert_eq!((&model["id"], &model["object"]), (&json!("a2"), &json!("model")));
        assert_eq!((&model["aliases"], &model["tags"]), (&json!(["a2", "code", "fim"]), &json!(["x", "y"])));
        assert!(model["meta"]["n_ctx_train"].as_u64().unwrap() > 0);
    }
    assert_eq!(server.get("/v1/models/code").json()["id"], "a2");
    assert_eq!(server.get("/v1/models/none").status, 404);
}

#[test]
fn case_023_027_switched_off() {
    let server = Server::start(&["--no-slots"]);
    for path in ["/slots", "/metrics"] {
        let answer = server.get(path);
        assert_eq!((answer.status, &answer.json()["error"]["type"]), (501, &json!("not_supported_error")));
    }
    assert_eq!(server.post("/props", json!({})).status, 501);
    assert_eq!(server.post("/slots/0?action=erase", json!({})).status, 501);
}

#[test]
fn case_024_025_slots() {
    let server = Server::start(&["-np", "2"]);
    let slots = server.get("/slots").json();
    for (id, slot) in slots.as_array().unwrap().iter().enumerate() {
        assert_eq!((&slot["id"], &slot["is_processing"]), (&json!(id), &json!(false)));
        assert!(slot["n_ctx"].as_u64().unwrap() > 0 && slot.get("params").is_none());
    }
    assert_eq!(slots.as_array().unwrap().len(), 2);
    server.ok("/completion", json!({"prompt": "A", "n_predict": 4, "id_slot": 0}));
    let slot = &server.idle_slots()[0];
    assert_eq!(
        (&slot["next_token"][0]["n_remain"], &slot["next_token"][0]["n_decoded"]),
        (&json!(-1), &json!(0))
    );
    assert_eq!(slot["params"]["n_predict"], 4);
}

#[test]
fn case_026_no_slot_is_idle() {
    let server = Server::start(&["-np", "1"]);
    assert_eq!(server.get("/slots?fail_on_no_slot=1").status, 200);
    let body = json!({"prompt": "A", "ignore_eos": true, "n_predict": -1});
    let mut running = server.send("POST", "/completion", &body.to_string());
    let busy = || server.get("/slots?fail_on_no_slot=1");
    let start = std::time::Instant::now();
    let answer = loop {
        let answer = busy();
        if answer.status == 503 || start.elapsed().as_secs() > 5 {
            break answer;
        }
        // The whole context takes the demo model a fraction of a second: try again.
        running = server.send("POST", "/completion", &body.to_string());
    };
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (503, &json!("unavailable_error")));
    drop(running);
}

#[test]
fn case_028_metrics() {
    let server = Server::start(&["--metrics"]);
    server.ok("/completion", json!({"prompt": "A", "n_predict": 4}));
    server.idle_slots();
    let answer = server.get("/metrics");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4"));
    assert!(answer.header("process-start-time-unix").unwrap().parse::<u64>().unwrap() > 1_700_000_000);
    let counters = "prompt_tokens_total prompt_tokens_cached_total prompt_seconds_total tokens_predicted_total \
        tokens_predicted_seconds_total n_decode_total n_tokens_max spec_decode_num_draft_tokens_total \
        spec_decode_num_accepted_tokens_total spec_decode_num_drafts_total";
    let gauges = "prompt_tokens_seconds predicted_tokens_seconds requests_processing requests_deferred \
        n_busy_slots_per_decode";
    for (names, kind) in [(counters, "counter"), (gauges, "gauge")] {
        for name in names.split_whitespace() {
            assert!(answer.body.contains(&format!("# HELP llamacpp:{name} ")), "{name}");
            assert!(answer.body.contains(&format!("# TYPE llamacpp:{name} {kind}\n")), "{name}");
            assert!(metric(&answer.body, name) >= 0.0);
        }
    }
    assert_eq!(metric(&answer.body, "requests_processing"), 0.0);
}

#[test]
fn case_029_metrics_of_a_repeated_prompt() {
    let server = Server::start(&["-np", "1", "--metrics"]);
    let prompt = "Once upon a time there was a fox. ".repeat(8);
    let answers: Vec<Value> = (0..2)
        .map(|_| server.ok("/completion", json!({"prompt": prompt, "n_predict": 2, "id_slot": 0})))
        .collect();
    server.idle_slots();
    let page = server.get("/metrics").body;
    assert_eq!(metric(&page, "prompt_tokens_total"), sum(&answers, "prompt_n"));
    assert_eq!(metric(&page, "prompt_tokens_cached_total"), sum(&answers, "cache_n"));
    assert!(sum(&answers, "cache_n") > 0.0);
}

#[test]
fn case_030_031_predicted() {
    let server = Server::start(&["--metrics"]);
    let answer =
        |budget| server.ok("/completion", json!({"prompt": "A", "n_predict": budget, "ignore_eos": true}));
    let answers = [answer(1), answer(4), answer(16)];
    server.idle_slots();
    let page = server.get("/metrics").body;
    assert_eq!(metric(&page, "tokens_predicted_total"), sum(&answers, "predicted_n"));
    let one = &answers[0]["timings"];
    assert_eq!((one["predicted_n"].as_f64(), one["predicted_per_second"].as_f64()), (Some(1.0), Some(0.0)));
    assert_eq!(one["predicted_per_token_ms"], 0.0);
    assert!(one["prompt_ms"].as_f64().unwrap() > 0.0);
    assert!(one.as_object().unwrap().values().all(|value| value.as_f64().is_some_and(|value| value >= 0.0)));
    let many = &answers[2]["timings"];
    let rate = 15.0 / many["predicted_ms"].as_f64().unwrap() * 1000.0;
    assert!((many["predicted_per_second"].as_f64().unwrap() / rate - 1.0).abs() < 1e-6);
}
