//! Special tokens, the ends of a generation, BOS and EOS, and vocabularies that are refused.

use bloomery_core::tokenizer::{Fim, Specials, TokenKind, Tokenizer, TokenizerError, Vocabulary};
use bloomery_gguf::{Metadata, Value};

use crate::tables::{Qwen3, qwen3, small, spm};

#[test]
fn user_defined_tokens_always_match_and_control_tokens_only_when_parsed() {
    let tokenizer = qwen3();
    let [think, end] = ["<think>", "<|im_end|>"].map(|text| tokenizer.id(text).unwrap());
    assert_eq!(tokenizer.kind(think), Some(TokenKind::UserDefined));
    assert_eq!(tokenizer.kind(end), Some(TokenKind::Control));
    let text = "a<think><|im_end|>";
    let plain = tokenizer.encode(text, Specials::AsText).unwrap();
    assert!(plain.contains(&think) && !plain.contains(&end) && plain.len() > 3);
    let parsed = tokenizer.encode(text, Specials::Parse).unwrap();
    assert_eq!(parsed, [64, think, end]);
    assert_eq!(tokenizer.decode(&parsed, false), "a<think>");
    assert_eq!(tokenizer.decode(&parsed, true), text);
    assert_eq!(tokenizer.token_bytes(end, false), b"");
    assert_eq!(tokenizer.token_bytes(end, true), b"<|im_end|>");
}

#[test]
fn the_longest_special_token_wins() {
    use TokenKind::UserDefined;
    let tokenizer =
        small(&[("==", UserDefined), ("====", UserDefined), ("=x", UserDefined)], &[], |_| ()).unwrap();
    let equals = tokenizer.id("=").unwrap();
    assert_eq!(tokenizer.encode("=========", Specials::AsText).unwrap(), [257, 257, equals]);
    assert_eq!(tokenizer.encode("=====x", Specials::AsText).unwrap(), [257, 258]);
    assert_eq!(tokenizer.encode("===", Specials::AsText).unwrap(), [256, equals]);
}

#[test]
fn merges_may_pass_through_text_that_is_no_token() {
    let merges = ["a b", "ab c", "x y"];
    let tokenizer = small(&[("abc", TokenKind::Normal)], &merges, |_| ()).unwrap();
    let id = |text| tokenizer.id(text).unwrap();
    let encode = |text| tokenizer.encode(text, Specials::AsText).unwrap();
    assert_eq!(encode("abc"), [id("abc")]);
    assert_eq!(encode("abd"), [id("a"), id("b"), id("d")]);
    assert_eq!(encode("xyx"), [id("x"), id("y"), id("x")]);
}

#[test]
fn text_never_merges_into_a_control_token() {
    let more = [("en", TokenKind::Normal), ("end", TokenKind::Control)];
    for pre in ["qwen2", "glm4"] {
        let tokenizer = small(&more, &["e n", "en d"], |vocabulary| vocabulary.pre = Some(pre)).unwrap();
        let got = tokenizer.encode("end", Specials::AsText).unwrap();
        assert_eq!(got, ["en", "d"].map(|text| tokenizer.id(text).unwrap()), "{pre}");
        assert_eq!(tokenizer.encode("end", Specials::Parse).unwrap(), [257], "{pre}");
    }
    let vocabulary = Vocabulary {
        model: "llama",
        tokens: &["e", "n", "en"].map(String::from),
        kinds: vec![TokenKind::Normal, TokenKind::Normal, TokenKind::Control],
        add_space_prefix: Some(false),
        ..Vocabulary::default()
    };
    let tokenizer = Tokenizer::new(&vocabulary).unwrap();
    assert_eq!(tokenizer.encode("en", Specials::AsText).unwrap(), [0, 1]);
}

#[test]
fn tokens_around_a_gap() {
    let qwen = qwen3();
    let fim = qwen.fim();
    let found =
        [fim.prefix, fim.suffix, fim.middle, fim.repository, fim.separator].map(|id| qwen.piece(id.unwrap()));
    let wanted = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"];
    assert_eq!(found, wanted.map(Some));
    assert_eq!(spm().fim(), Fim::default());
    // What the file names counts more than what the vocabulary looks like.
    let more = [("<|fim_prefix|>", TokenKind::Control), ("<x>", TokenKind::Control)];
    let named = small(&more, &[], |vocabulary| vocabulary.fim.prefix = Some(257)).unwrap();
    assert_eq!((named.fim().prefix, named.piece(257)), (Some(257), Some("<x>")));
    assert!(small(&more, &[], |vocabulary| vocabulary.fim.middle = Some(999)).is_err());
}

#[test]
fn ends_of_generation() {
    use TokenKind::{Control, Normal, UserDefined};
    let qwen = qwen3();
    let texts: Vec<&str> = qwen.end_of_generation().iter().map(|&id| qwen.piece(id).unwrap()).collect();
    let wanted = ["<|endoftext|>", "<|im_end|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"];
    assert_eq!(texts, wanted);
    assert!(!qwen.is_end_of_generation(qwen.id("</s>").unwrap()));
    assert_eq!((spm().bos(), spm().eos(), spm().end_of_generation()), (Some(1), Some(2), &[2][..]));

    let turns = [("<|user|>", Control), ("<|observation|>", Control), ("</s>", UserDefined), ("q", Normal)];
    let glm = small(&turns, &[], |vocabulary| {
        vocabulary.pre = Some("glm4");
        vocabulary.eot = Some(259);
    });
    assert_eq!(glm.unwrap().end_of_generation(), [256, 257, 258, 259]);
    let other = small(&turns, &[], |_| ()).unwrap();
    assert_eq!(other.end_of_generation(), [258]);
    assert_eq!(other.kind(258), Some(Control));

    let harmony = [("<|end|>", Control), ("<|return|>", Control), ("<|call|>", Control)];
    assert_eq!(small(&harmony, &[], |_| ()).unwrap().end_of_generation(), [257, 258]);
    assert_eq!(small(&harmony[..2], &[], |_| ()).unwrap().end_of_generation(), [256, 257]);
}

#[test]
fn bos_and_eos() {
    let both = small(&[("<b>", TokenKind::Control), ("<e>", TokenKind::Control)], &[], |vocabulary| {
        (vocabulary.bos, vocabulary.eos) = (Some(256), Some(257));
        (vocabulary.add_bos, vocabulary.add_eos) = (Some(true), Some(true));
    });
    assert_eq!(both.unwrap().encode_prompt("<b>", Specials::Parse).unwrap(), [256, 256, 257]);
    let by_rule = small(&[("<b>", TokenKind::Control)], &[], |vocabulary| {
        vocabulary.bos = Some(256);
        vocabulary.pre = Some("llama-bpe");
    });
    assert_eq!(by_rule.unwrap().encode_prompt("", Specials::Parse).unwrap(), [256]);
    assert!(!qwen3().adds_bos());
    assert_eq!((qwen3().bos(), qwen3().eos()), (None, Some(151_645)));
}

#[test]
fn wrong_vocabularies_are_refused() {
    let message = |change: &dyn Fn(&mut Vocabulary)| small(&[], &[], change).unwrap_err().to_string();
    assert_eq!(message(&|v| v.model = "bert"), "tokenizer.ggml.model is 'bert'; supported: gpt2, llama");
    assert!(message(&|v| v.pre = Some("x")).starts_with("tokenizer.ggml.pre is 'x'; supported: qwen2, "));
    assert!(message(&|v| v.pre = None).starts_with("tokenizer.ggml.pre is missing"));
    assert_eq!(message(&|v| v.tokens = &[]), "tokenizer.ggml.tokens is empty");
    assert_eq!(
        message(&|v| v.kinds.truncate(9)),
        "tokenizer.ggml.token_type has 9 entries, the vocabulary has 256"
    );
    assert_eq!(
        message(&|v| v.eot = Some(256)),
        "tokenizer.ggml.eot_token_id is 256, the vocabulary has 256 tokens"
    );
    assert_eq!(message(&|v| v.add_bos = Some(true)), "add_bos_token is true but bos_token_id is missing");
    for merge in ["ab", "a ", " b", ""] {
        let error = small(&[], &["a b", merge], |_| ()).unwrap_err();
        assert!(matches!(error, TokenizerError::MalformedMerge { index: 1, .. }), "{error}");
    }
    let gap = Tokenizer::new(&Vocabulary {
        model: "gpt2",
        pre: Some("qwen2"),
        tokens: &["a".to_owned()],
        ..Default::default()
    });
    let error = gap.unwrap().encode("ab", Specials::AsText).unwrap_err();
    assert_eq!(error.to_string(), "the vocabulary has no token for the byte 0x62");
}

#[test]
fn reads_the_keys_of_a_file() {
    let texts: Vec<String> = [&Qwen3::get().tokens[..256], &["ab".to_owned(), "<b>".to_owned()]].concat();
    let mut kinds = vec![1_i32; 258];
    kinds[257] = 3;
    let keys = |pairs: Vec<(&str, Value)>| {
        let pairs = pairs.into_iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value));
        Tokenizer::from_metadata(&Metadata::from_pairs(pairs).unwrap())
    };
    let tokenizer = keys(vec![
        ("model", "gpt2".into()),
        ("pre", "qwen2".into()),
        ("tokens", texts.into()),
        ("token_type", kinds.into()),
        ("merges", vec!["a b".to_owned()].into()),
        ("bos_token_id", 257_u32.into()),
        ("add_bos_token", true.into()),
    ])
    .unwrap();
    assert_eq!(tokenizer.encode_prompt("ab<b>", Specials::Parse).unwrap(), [257, 256, 257]);
    let error = keys(vec![("model", "gpt2".into())]).unwrap_err().to_string();
    assert_eq!(error, r#"missing metadata key "tokenizer.ggml.tokens""#);
}
