//! What is particular to SentencePiece.

use bloomery_core::tokenizer::{Specials, TokenKind, Tokenizer, Vocabulary};

use crate::tables::{spm, spm_with_prefix};

#[test]
fn spm_puts_a_space_before_text_that_starts_or_follows_a_special_token() {
    let (with, without) = (spm(), spm_with_prefix(Some(false)));
    let ids = |tokenizer: &Tokenizer, text| tokenizer.encode(text, Specials::Parse).unwrap();
    let [hello, hello_inside] = ["▁Hello", "Hello"].map(|text| with.id(text).unwrap());
    assert_eq!(ids(with, "Hello</s>Hello"), [hello, 2, hello]);
    assert_eq!(ids(&without, "Hello</s>Hello"), [hello_inside, 2, hello_inside]);
    assert_eq!(with.decode(&[1, hello, hello], false), "Hello Hello");
    assert_eq!(with.decode(&[1, hello, hello], true), "<s> Hello Hello");
    assert_eq!(without.decode(&[hello, hello], false), " Hello Hello");
    assert_eq!(with.detokenizer(false).push(hello), "Hello");
    assert_eq!(with.continuation(false).push(hello), " Hello");
}

#[test]
fn spm_falls_back_to_bytes() {
    let tokenizer = spm();
    let got = tokenizer.encode("\u{1F999}", Specials::AsText).unwrap();
    let bytes = ["▁", "<0xF0>", "<0x9F>", "<0xA6>", "<0x99>"].map(|text| tokenizer.id(text).unwrap());
    assert_eq!(got, bytes);
    let mut stream = tokenizer.detokenizer(false);
    let pieces: Vec<String> = got.iter().map(|&id| stream.push(id)).collect();
    assert_eq!(pieces, ["", "", "", "", "\u{1F999}"]);
    assert_eq!(stream.push(bytes[1]) + &stream.finish(), "\u{FFFD}");
    assert_eq!(stream.finish(), "");
}

/// Gemma's way: runs of spaces are user-defined tokens, spelled with spaces, and no space is put in front.
#[test]
fn runs_of_spaces_are_found_in_both_spellings() {
    let texts = ["<unk>", "▁", "a", "▁a", "  ", "   ", "\n\n", "<0x0A>"].map(String::from);
    let mut kinds = vec![TokenKind::Normal; 8];
    kinds[0] = TokenKind::Unknown;
    kinds[4..7].fill(TokenKind::UserDefined);
    kinds[7] = TokenKind::Byte;
    let vocabulary = Vocabulary {
        model: "llama",
        tokens: &texts,
        kinds,
        scores: vec![0.0, -3.0, -2.0, -1.0, 0.0, 0.0, 0.0, 0.0],
        add_bos: Some(false),
        add_space_prefix: Some(false),
        ..Vocabulary::default()
    };
    let tokenizer = Tokenizer::new(&vocabulary).unwrap();
    let encode = |text| tokenizer.encode(text, Specials::AsText).unwrap();
    assert_eq!(encode("a a"), [2, 3]);
    assert_eq!(encode("a  a"), [2, 4, 2]);
    assert_eq!(encode("    a"), [5, 3]);
    assert_eq!(encode("▁▁▁▁a"), [5, 3]);
    assert_eq!(encode("▁▁ ▁a"), [4, 4, 2]);
    assert_eq!(encode("\n\n\n"), [6, 7]);
    assert_eq!(encode("b"), [0], "no token, no byte: the unknown token");
    assert_eq!(tokenizer.decode(&[4, 3, 0, 6], false), "   a\n\n");
}

#[test]
fn equal_scores_merge_from_the_left_and_the_best_score_first() {
    let texts = ["<unk>", "a", "b", "c", "ab", "bc", "aa"].map(String::from);
    let encode = |scores: [f32; 7], text| {
        let vocabulary = Vocabulary {
            model: "llama",
            tokens: &texts,
            scores: scores.to_vec(),
            add_space_prefix: Some(false),
            ..Vocabulary::default()
        };
        Tokenizer::new(&vocabulary).unwrap().encode(text, Specials::AsText).unwrap()
    };
    let level = [0.0, 0.0, 0.0, 0.0, -1.0, -1.0, -1.0];
    assert_eq!(encode(level, "abc"), [4, 3]);
    assert_eq!(encode(level, "aaaaa"), [6, 6, 1]);
    assert_eq!(encode([0.0, 0.0, 0.0, 0.0, -2.0, -1.0, -1.0], "abc"), [1, 5]);
}
