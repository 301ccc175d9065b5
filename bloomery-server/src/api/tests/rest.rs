//! Tokenizer and the routes of what there is not.

use serde_json::json;

use super::*;

#[tokio::test]
async fn text_to_ids_and_back() {
    let app = shared();
    let text = "Hello, wörld! 한국어 🦊";
    let value = ok(&app, "/tokenize", json!({"content": text})).await;
    assert_eq!(value["tokens"].as_array().unwrap().len(), 25);
    assert_eq!(ok(&app, "/detokenize", value).await["content"], text);
    let pieces = ok(&app, "/tokenize", json!({"content": "🦊 fox", "with_pieces": true})).await;
    let recorded = json!({"tokens": [{"id": 172, "piece": [240]}, {"id": 253, "piece": [159]},
        {"id": 99, "piece": [166]}, {"id": 232, "piece": [138]}, {"id": 689, "piece": " fo"}, {"id": 87, "piece": "x"}]});
    assert_eq!(pieces, recorded);
    assert_eq!(ok(&app, "/tokenize", json!({})).await, json!({"tokens": []}));
    let mixed = ok(&app, "/tokenize", json!({"content": ["a", 10, "b"]})).await;
    assert_eq!(mixed["tokens"][1], 10);
    let special = ok(&app, "/tokenize", json!({"content": "<|im_end|>"})).await;
    assert_eq!(special["tokens"].as_array().unwrap().len(), 1);
    let plain = ok(&app, "/tokenize", json!({"content": "<|im_end|>", "parse_special": false})).await;
    assert!(plain["tokens"].as_array().unwrap().len() > 1);
    for wrong in [
        json!({"tokens": [99_999_999]}),
        json!({"tokens": ["a"]}),
        json!({"tokens": 1}),
        json!({"tokens": [-1]}),
    ] {
        assert_eq!(post(&app, "/detokenize", &wrong).await.0, 400);
    }
    assert_eq!(post(&app, "/tokenize", &json!({"content": {"a": 1}})).await.0, 400);
    assert_eq!(post(&app, "/tokenize", &json!({"content": "a", "add_special": "x"})).await.0, 400);
}

#[tokio::test]
async fn what_there_is_not() {
    let app = shared();
    for (target, wanted) in [
        ("/infill", 501),
        ("/v1/embeddings", 501),
        ("/embedding", 501),
        ("/embeddings", 501),
        ("/rerank", 501),
        ("/v1/rerank", 501),
        ("/v1/reranking", 501),
        ("/v1/audio/transcriptions", 501),
        ("/v1/systemone", 501),
        ("/tools", 403),
        ("/cors-proxy", 403),
        ("/v1/models", 404),
        ("/slots", 404),
        ("/nope", 404),
    ] {
        let (status, value) = post(&app, target, &json!({})).await;
        assert_eq!(status, wanted, "{target}: {value}");
        assert_eq!(value["error"]["code"].is_null(), wanted == 403);
    }
    assert_eq!(get(&app, "/completion").await.0, 404);
    assert_eq!(get(&app, "/tools").await.1["error"]["type"], "feature_disabled");
    assert_eq!(get(&app, "/lora-adapters").await.1, json!([]));
    assert_eq!(ok(&app, "/lora-adapters", json!([])).await, json!({"success": true}));
    assert_eq!(post(&app, "/lora-adapters", &json!({})).await.0, 400);
    assert_eq!(post(&app, "/lora-adapters", &json!([{"id": 0, "scale": 1}])).await.0, 400);
}

#[tokio::test]
async fn embeddings() {
    let app = serve(2, |options| options.embeddings = true);
    let body = json!({"input": ["hello", "a fox", [1, 2, 3]], "model": "m"});
    let value = ok(&app, "/v1/embeddings", body.clone()).await;
    assert_eq!(keys(&value), ["model", "object", "usage", "data"]);
    assert_eq!(value["usage"]["prompt_tokens"], value["usage"]["total_tokens"]);
    let floats =
        |value: &Value| value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect::<Vec<_>>();
    for entry in value["data"].as_array().unwrap() {
        let row = floats(&entry["embedding"]);
        assert_eq!(row.len(), 256);
        assert!((row.iter().map(|v| v * v).sum::<f64>() - 1.0).abs() < 1e-5);
    }
    let native = ok(&app, "/embeddings", json!({"input": "hello"})).await;
    assert_eq!(native[0]["embedding"][0], value["data"][0]["embedding"]);
    for (name, wrong) in [("input", json!([])), ("input", json!("")), ("encoding_format", json!("x"))] {
        let mut body = body.clone();
        body[name] = wrong;
        assert_eq!(post(&app, "/v1/embeddings", &body).await.0, 400);
    }
    let (status, value) = post(&app, "/v1/embeddings", &json!({"input": vec![1; 1025]})).await;
    assert!(status == 400 && value["error"]["message"].as_str().unwrap().contains("too large"), "{value}");
}
