//! Recorded ids.

use bloomery_core::tokenizer::{Specials, TokenKind, Tokenizer};
use serde_json::Value;

use crate::tables::{Qwen3, data, ids, qwen3, spm};

/// Compares all cases of a file. See `data/tokenizer/README.md` for the texts where the second engine counts.
fn check(name: &str, tokenizer: &Tokenizer, expected: &Value) {
    let cases = expected["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 96, "{name}");
    let ordinary_end = tokenizer.id("</s>").is_some_and(|id| tokenizer.kind(id) == Some(TokenKind::Normal));
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let plain = ids(&case["plain"]);
        let special =
            if ordinary_end && text.contains("</s>") { plain.clone() } else { ids(&case["special"]) };
        let got = tokenizer.encode(text, Specials::AsText).unwrap();
        assert_eq!(got, plain, "{name}: plain {text:?}");
        let got = tokenizer.encode(text, Specials::Parse).unwrap();
        assert_eq!(got, special, "{name}: special {text:?}");
        if let Some(full) = case.get("full").filter(|_| !(ordinary_end && text.contains("</s>"))) {
            let got = tokenizer.encode_prompt(text, Specials::Parse).unwrap();
            assert_eq!(got, ids(full), "{name}: full {text:?}");
        }
        let decoded = tokenizer.decode(&special, true);
        assert_eq!(decoded, text.to_owned(), "{name}: decoded {text:?}");
    }
}

#[test]
fn qwen3_ids() {
    let expected = data!("expected-qwen3");
    check("qwen3", qwen3(), &expected);
    let strikes: Vec<&Value> =
        expected["cases"].as_array().unwrap().iter().filter(|case| case.get("why").is_some()).collect();
    assert_eq!(strikes.len(), 2);
    assert_eq!(strikes[1]["special_other"], strikes[1]["plain"], "the ids that `check` asks for");
}

#[test]
fn the_ids_of_every_splitting_rule() {
    let rules = [
        ("chatglm-bpe", data!("expected-pre-chatglm-bpe")),
        ("deepseek-coder", data!("expected-pre-deepseek-coder")),
        ("deepseek-llm", data!("expected-pre-deepseek-llm")),
        ("deepseek-v3", data!("expected-pre-deepseek-v3")),
        ("glm4", data!("expected-pre-glm4")),
        ("gpt-2", data!("expected-pre-gpt-2")),
        ("gpt-4o", data!("expected-pre-gpt-4o")),
        ("joyai-llm", data!("expected-pre-joyai-llm")),
        ("kimi-k2", data!("expected-pre-kimi-k2")),
        ("llama-bpe", data!("expected-pre-llama-bpe")),
        ("qwen35", data!("expected-pre-qwen35")),
    ];
    for (pre, expected) in &rules {
        let tokenizer = Tokenizer::new(&Qwen3::get().vocabulary(pre)).unwrap();
        check(pre, &tokenizer, expected);
    }
}

#[test]
fn llama_spm_ids() {
    let expected = data!("expected-llama-spm");
    let tokenizer = spm();
    for case in expected["cases"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        assert_eq!(tokenizer.encode(text, Specials::AsText).unwrap(), ids(&case["plain"]), "plain {text:?}");
        assert_eq!(
            tokenizer.encode(text, Specials::Parse).unwrap(),
            ids(&case["special"]),
            "special {text:?}"
        );
        assert_eq!(
            tokenizer.encode_prompt(text, Specials::Parse).unwrap(),
            ids(&case["full"]),
            "full {text:?}"
        );
        if !text.contains('▁') {
            assert_eq!(tokenizer.decode(&ids(&case["plain"]), false), text);
        }
    }
}
