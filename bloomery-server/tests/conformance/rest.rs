//! I: tokenizer, infill, embeddings, slot files, and what is bloomery's own.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Server, scratch};

/// An empty directory inside an empty one.
fn directory(name: &str) -> PathBuf {
    let path = scratch(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(path.join("slots")).unwrap();
    path
}

fn number(value: &Value, name: &str) -> u64 {
    value["timings"][name].as_u64().unwrap()
}

#[test]
fn case_114_115_tokens() {
    let server = Server::start(&[]);
    let text = "What is the capital of 프랑스? 東京 🦊 ok";
    let tokens = server.ok("/tokenize", json!({"content": text}))["tokens"].clone();
    assert_eq!(server.ok("/detokenize", json!({"tokens": tokens}))["content"], text);
    let pieces = server.ok("/tokenize", json!({"content": text, "with_pieces": true}));
    let mut bytes = Vec::new();
    for token in pieces["tokens"].as_array().unwrap() {
        assert!(token["id"].is_u64());
        match &token["piece"] {
            Value::String(piece) => bytes.extend_from_slice(piece.as_bytes()),
            Value::Array(piece) => bytes.extend(piece.iter().map(|byte| byte.as_u64().unwrap() as u8)),
            other => panic!("{other}"),
        }
    }
    assert_eq!(String::from_utf8(bytes).unwrap(), text);
    let bytes = server.request("POST", "/detokenize", "{\"tokens\":[240]}").json();
    assert!(bytes["content"].is_string());
}

#[test]
fn case_116_infill_needs_its_tokens() {
    let server = Server::start(&[]);
    let answer = server.post("/infill", json!({"input_prefix": "a", "input_suffix": "b"}));
    assert_eq!(answer.status, 501);
    for part in ["prefix", "suffix", "middle"] {
        assert!(answer.error().contains(&format!("{part} token is missing")));
    }
}

/// Asks after a long common beginning.
fn ask(server: &Server, tail: &str, slot: usize) -> Value {
    let common = "The fox sat by the river and looked at the water. ".repeat(6);
    let body = json!({"prompt": common + tail, "n_predict": 4, "temperature": 0, "id_slot": slot});
    server.ok("/completion", body)
}

#[test]
fn case_121_a_slot_in_a_file() {
    let directory = directory("case_121");
    let path = directory.join("slots");
    let server = Server::start(&["-np", "2", "--slot-save-path", path.to_str().unwrap()]);
    let first = ask(&server, "It was cold.", 1);
    assert_eq!(number(&first, "cache_n"), 0);
    let saved = server.ok("/slots/1?action=save", json!({"filename": "one.bin"}));
    assert_eq!(saved["n_saved"], first["tokens_cached"]);
    assert_eq!(saved["n_written"], fs::metadata(path.join("one.bin")).unwrap().len());
    assert!(saved["timings"]["save_ms"].as_f64().unwrap() > 0.0);
    let other = ask(&server, "He slept.", 1);
    assert!(number(&other, "prompt_n") < 12, "{}", other["timings"]);
    drop(server);

    let server = Server::start(&["-np", "2", "--slot-save-path", path.to_str().unwrap()]);
    let restored = server.ok("/slots/0?action=restore", json!({"filename": "one.bin"}));
    assert_eq!(restored["n_restored"], saved["n_saved"]);
    assert_eq!(restored["n_read"], saved["n_written"]);
    let tail = ask(&server, "He slept.", 0);
    assert!(number(&tail, "cache_n") > 60 && number(&tail, "prompt_n") < 12, "{}", tail["timings"]);
    assert_eq!(tail["content"], other["content"]);
    assert_eq!(ask(&server, "It was cold.", 1)["content"], first["content"]);
}

#[test]
fn case_122_an_erased_slot() {
    let directory = directory("case_122");
    let server = Server::start(&["--slot-save-path", directory.to_str().unwrap()]);
    let first = ask(&server, "It was cold.", 0);
    assert!(number(&ask(&server, "It was cold.", 0), "cache_n") > 0);
    let erased = server.ok("/slots/0?action=erase", json!({}));
    assert_eq!(erased["n_erased"], first["tokens_cached"]);
    let again = ask(&server, "It was cold.", 0);
    assert_eq!((number(&again, "cache_n"), number(&again, "prompt_n")), (0, number(&first, "prompt_n")));
    assert_eq!(again["content"], first["content"]);
}

#[test]
fn case_123_names_of_files() {
    let directory = directory("case_123");
    let path = directory.join("slots");
    let server = Server::start(&["--slot-save-path", path.to_str().unwrap()]);
    server.ok("/completion", json!({"prompt": "A", "n_predict": 1, "id_slot": 0}));
    for name in ["../x", "a/b", "", &"x".repeat(300), "..", "a\u{0}b", "a\\b"] {
        for action in ["save", "restore"] {
            let answer = server.post(&format!("/slots/0?action={action}"), json!({"filename": name}));
            assert_eq!(answer.status, 400, "{name}");
        }
    }
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    fs::write(path.join("bad"), b"BLMSNAP1 and then nothing").unwrap();
    for name in ["bad", "missing"] {
        assert_eq!(server.post("/slots/0?action=restore", json!({"filename": name})).status, 400);
    }
    for (target, status) in
        [("/slots/9?action=erase", 400), ("/slots/x?action=erase", 400), ("/slots/0?action=x", 400)]
    {
        assert_eq!(server.post(target, json!({})).status, status);
    }
}

#[test]
fn case_124_lora() {
    let server = Server::start(&[]);
    assert_eq!(server.get("/lora-adapters").json(), json!([]));
    assert_eq!(server.ok("/lora-adapters", json!([])), json!({"success": true}));
    assert_eq!(server.post("/lora-adapters", json!({})).status, 400);
}

#[test]
fn case_126_what_this_model_is_not() {
    let server = Server::start(&[]);
    for (path, status, kind) in [
        ("/v1/systemone", 501, "not_supported_error"),
        ("/v1/rerank", 501, "not_supported_error"),
        ("/v1/embeddings", 501, "not_supported_error"),
        ("/v1/audio/transcriptions", 501, "not_supported_error"),
        ("/tools", 403, "feature_disabled"),
        ("/cors-proxy", 403, "feature_disabled"),
    ] {
        let answer = server.post(path, json!({"input": "x", "query": "x", "documents": ["y"]}));
        assert_eq!((answer.status, &answer.json()["error"]["type"]), (status, &json!(kind)), "{path}");
    }
}

#[test]
fn case_129_a_prompt_that_another_slot_has_seen() {
    let server = Server::start(&["-np", "2"]);
    let prompt = "Once upon a time there was a fox who lived by a river. ".repeat(4);
    server.ok("/completion", json!({"prompt": prompt, "n_predict": 1, "id_slot": 0}));
    server.ok("/completion", json!({"prompt": "Something else", "n_predict": 1, "id_slot": 1}));
    let again = server.ok("/completion", json!({"prompt": prompt, "n_predict": 1, "id_slot": 1}));
    assert!(number(&again, "cache_n") > 0);
}
