//! A model whose layers keep a state and no rows: prefixes and slots are reused all the same.

use std::fs;

use serde_json::{Value, json};

use super::support::{Server, data, scratch};

fn ids(count: usize) -> Vec<u64> {
    (0..count as u64).map(|position| (position * 37 + position * position) % 1000).collect()
}

fn ask(server: &Server, prompt: &[u64], reuse: bool) -> Value {
    let body = json!({
        "prompt": prompt, "n_predict": 6, "temperature": 0, "ignore_eos": true, "cache_prompt": reuse,
        "return_tokens": true, "id_slot": 0
    });
    server.ok("/completion", body)
}

fn cached(answer: &Value) -> u64 {
    answer["timings"]["cache_n"].as_u64().unwrap()
}

#[test]
fn an_edit_near_the_end_of_a_conversation_and_a_slot_in_a_file() {
    let directory = scratch("recurrent");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let model = data("bloomery-core/tests/data/models/qwen35moe-small-bf16.gguf");
    let words = ["-m", model.to_str().unwrap(), "-c", "5120", "-np", "1", "--device", "none"];
    let save = ["--slot-save-path", directory.to_str().unwrap(), "-ctxcp", "12"];
    let server = Server::start(&[&words[..], &save].concat());
    let conversation = ids(4000);
    let first = ask(&server, &conversation, true);
    assert_eq!(cached(&first), 0);
    let saved = server.ok("/slots/0?action=save", json!({"filename": "one.bin"}));
    assert_eq!(saved["n_saved"], json!(4005));

    // The next turn goes on where the last ended: all but the last token of the answer is known.
    let answer: Vec<u64> = serde_json::from_value(first["tokens"].clone()).unwrap();
    let longer = [&conversation[..], &answer, &ids(30)].concat();
    let next = ask(&server, &longer, true);
    assert_eq!(cached(&next), 4005);

    let mut edited = conversation.clone();
    edited[3900] += 1;
    let again = ask(&server, &edited, true);
    assert!(cached(&again) > 3600, "{}", again["timings"]);
    assert_eq!(ask(&server, &edited, false)["tokens"], again["tokens"]);
    drop(server);

    let server = Server::start(&[&words[..], &save].concat());
    let restored = server.ok("/slots/0?action=restore", json!({"filename": "one.bin"}));
    assert_eq!(restored["n_restored"], saved["n_saved"]);
    let resumed = ask(&server, &longer, true);
    assert_eq!((cached(&resumed), &resumed["tokens"]), (4005, &next["tokens"]));
}
