//! Props, models, slots, metrics.

use bloomery_core::{Drafts, Ngram};
use serde_json::json;

use super::*;

#[tokio::test]
async fn models_and_one_model() {
    let app = serve(1, |options| {
        options.aliases = ["fim", "a2", "code"].map(str::to_owned).to_vec();
        options.tags = vec!["t".to_owned()];
    });
    let (_, value) = get(&app, "/v1/models").await;
    assert_eq!(value["data"][0]["id"], "a2");
    assert_eq!(value["data"][0]["aliases"], json!(["a2", "code", "fim"]));
    let meta = &value["data"][0]["meta"];
    assert_eq!((&meta["n_params"], &meta["size"]), (&json!(14_240_512), &json!(8_853_504)));
    assert_eq!((&meta["ftype"], &meta["vocab_type"]), (&json!("Q4_K - Medium"), &json!(2)));
    assert_eq!((&meta["n_ctx"], &meta["n_ctx_train"]), (&json!(1024), &json!(1024)));
    assert_eq!(get(&app, "/models").await.1["models"][0]["name"], "a2");
    assert_eq!(get(&app, "/v1/models/fim").await.1["id"], "a2");
    assert_eq!(get(&app, "/v1/models/other").await.0, 404);
}

#[tokio::test]
async fn props() {
    let (status, value) = get(&shared(), "/props").await;
    assert_eq!(status, 200);
    let settings = &value["default_generation_settings"];
    assert_eq!((&settings["n_ctx"], &value["total_slots"]), (&json!(1024), &json!(2)));
    assert_eq!(settings["params"]["seed"], u32::MAX);
    for long in ["stop", "grammar", "logit_bias", "dry_sequence_breakers"] {
        assert!(settings["params"].get(long).is_none());
    }
    assert_eq!((&value["bos_token"], &value["eos_token"]), (&json!("<|endoftext|>"), &json!("<|im_end|>")));
    assert!(value["chat_template"].as_str().unwrap().contains("<|im_start|>"));
    let caps = json!({"supports_object_arguments": false, "supports_parallel_tool_calls": false,
        "supports_preserve_reasoning": false, "supports_reasoning_effort": false,
        "supports_string_content": true, "supports_system_role": true, "supports_tool_calls": false,
        "supports_tools": false, "supports_typed_content": false});
    assert_eq!(value["chat_template_caps"], caps);
    assert_eq!(post(&shared(), "/props", &json!({})).await.0, 501);
    let allowed = serve(1, |options| options.props = true);
    assert_eq!(ok(&allowed, "/props", json!({})).await, json!({"success": true}));
}

#[tokio::test]
async fn slots_before_and_after() {
    let app = serve(2, |_| {});
    let (_, value) = get(&app, "/slots").await;
    let bare = |id| json!({"id": id, "n_ctx": 1024, "speculative": true, "is_processing": false});
    assert_eq!(value, json!([bare(0), bare(1)]));
    ok(&app, "/completion", json!({"prompt": "A", "n_predict": 3, "id_slot": 1})).await;
    busy(&app, 0).await;
    let (_, value) = get(&app, "/slots").await;
    let slot = &value[1];
    let wanted = "id n_ctx speculative is_processing id_task n_prompt_tokens n_prompt_tokens_processed \
        n_prompt_tokens_cache params next_token";
    assert_eq!(keys(slot), wanted.split_whitespace().collect::<Vec<_>>());
    assert_eq!(slot["params"]["n_predict"], 3);
    let next = &slot["next_token"][0];
    assert_eq!((&next["n_remain"], &next["n_decoded"]), (&json!(-1), &json!(0)));
    assert!(value[0].get("params").is_none());
    let off = serve(1, |options| options.slots = false);
    assert_eq!(get(&off, "/slots").await.0, 501);
}

#[tokio::test]
async fn no_slot_is_idle() {
    let app = serve(1, |_| {});
    assert_eq!(get(&app, "/slots?fail_on_no_slot=1").await.0, 200);
    let body = json!({"prompt": "A", "n_predict": -1, "ignore_eos": true, "stream": true});
    let running = answer(&app, request(Method::POST, "/completion", body.to_string())).await;
    busy(&app, 1).await;
    let (status, value) = get(&app, "/slots?fail_on_no_slot=1").await;
    assert_eq!((status, &value["error"]["type"]), (503, &json!("unavailable_error")));
    assert_eq!(get(&app, "/slots").await.1[0]["is_processing"], true);
    drop(running);
}

#[tokio::test]
async fn drafts_are_counted_and_can_be_switched_off() {
    let forced = Ngram { shortest: 1, priced: false, ..Ngram::default() };
    let app = serve(1, |options| options.params.drafts = Drafts::Ngram(forced));
    let prompt = "The red fox saw the red hen. The red hen saw the red fox. The red";
    let body = json!({"prompt": prompt, "n_predict": 60, "temperature": 0, "ignore_eos": true, "n_probs": 2});
    let value = ok(&app, "/completion", body.clone()).await;
    let of = |name: &str| value["timings"][name].as_u64().unwrap();
    let (drafted, accepted) = (of("draft_n"), of("draft_n_accepted"));
    assert!(0 < accepted && accepted < drafted, "{accepted} of {drafted}");
    assert_eq!(value["generation_settings"]["speculative.types"], "ngram-simple");
    busy(&app, 0).await;
    let page = get(&app, "/metrics").await.1;
    for line in [
        format!("spec_decode_num_draft_tokens_total {drafted}\n"),
        format!("spec_decode_num_accepted_tokens_total {accepted}\n"),
        "spec_decode_num_accepted_tokens_per_pos_total{position=\"0\"} ".to_owned(),
    ] {
        assert!(page.as_str().unwrap().contains(&format!("\nllamacpp:{line}")), "{line}: {page}");
    }
    let off = serve(1, |options| options.params.drafts = Drafts::Off);
    let plain = ok(&off, "/completion", body).await;
    assert_eq!(plain["content"], value["content"]);
    assert_eq!(plain["completion_probabilities"], value["completion_probabilities"]);
    assert_eq!(plain["timings"].get("draft_n"), None);
    assert_eq!(plain["generation_settings"]["speculative.types"], "none");
    assert_eq!(get(&off, "/slots").await.1[0]["speculative"], false);
    let page = get(&off, "/metrics").await.1;
    assert!(page.as_str().unwrap().contains("llamacpp:spec_decode_num_drafts_total 0\n"));
    assert!(!page.as_str().unwrap().contains("per_pos"));
}

#[tokio::test]
async fn metrics_sum_up_the_timings() {
    let app = serve(1, |_| {});
    let (mut prompt, mut cached, mut predicted) = (0, 0, 0);
    for budget in [1, 4, 16] {
        let value = ok(&app, "/completion", json!({"prompt": "Once upon a time", "n_predict": budget})).await;
        let of = |name: &str| value["timings"][name].as_u64().unwrap();
        prompt += of("prompt_n");
        cached += of("cache_n");
        predicted += of("predicted_n");
    }
    busy(&app, 0).await;
    let page = get(&app, "/metrics").await.1;
    let page = page.as_str().unwrap();
    for (name, kind) in [
        ("prompt_tokens_total", "counter"),
        ("prompt_tokens_cached_total", "counter"),
        ("prompt_seconds_total", "counter"),
        ("tokens_predicted_total", "counter"),
        ("tokens_predicted_seconds_total", "counter"),
        ("n_decode_total", "counter"),
        ("n_tokens_max", "counter"),
        ("spec_decode_num_draft_tokens_total", "counter"),
        ("spec_decode_num_accepted_tokens_total", "counter"),
        ("spec_decode_num_drafts_total", "counter"),
        ("prompt_tokens_seconds", "gauge"),
        ("predicted_tokens_seconds", "gauge"),
        ("requests_processing", "gauge"),
        ("requests_deferred", "gauge"),
        ("n_busy_slots_per_decode", "gauge"),
        ("kv_cache_usage_ratio", "gauge"),
        ("prefix_pages", "gauge"),
        ("prefix_tokens_total", "counter"),
    ] {
        assert!(page.contains(&format!("# HELP llamacpp:{name} ")), "{name}");
        assert!(page.contains(&format!("# TYPE llamacpp:{name} {kind}\nllamacpp:{name} ")), "{name}");
    }
    let line = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("llamacpp:{name} ")));
        line.unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(line("prompt_tokens_total"), prompt as f64);
    assert_eq!(line("prompt_tokens_cached_total"), cached as f64);
    assert_eq!(line("tokens_predicted_total"), predicted as f64);
    assert_eq!(line("requests_processing"), 0.0);
    assert!(line("predicted_tokens_seconds") > 0.0);
    let again = get(&app, "/metrics").await.1;
    assert!(again.as_str().unwrap().contains("llamacpp:predicted_tokens_seconds 0\n"));
    let off = serve(1, |options| options.metrics = false);
    assert_eq!(get(&off, "/metrics").await.0, 501);
}
