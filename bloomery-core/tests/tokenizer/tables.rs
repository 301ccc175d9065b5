//! The vocabularies in `tests/data/tokenizer`.

use std::io::Read;
use std::sync::OnceLock;

use bloomery_core::tokenizer::{TokenKind, Tokenizer, TokenizerError, Vocabulary};
use flate2::read::GzDecoder;
use serde_json::Value;

macro_rules! data {
    ($name:literal) => {
        $crate::tables::gunzip(include_bytes!(concat!("../data/tokenizer/", $name, ".json.gz")))
    };
}

pub(crate) fn gunzip(bytes: &[u8]) -> Value {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// The Qwen3 tables in the form of a file's arrays.
pub(crate) struct Qwen3 {
    pub(crate) tokens: Vec<String>,
    pub(crate) kinds: Vec<TokenKind>,
    pub(crate) merges: Vec<String>,
}

impl Qwen3 {
    pub(crate) fn get() -> &'static Qwen3 {
        static TABLES: OnceLock<Qwen3> = OnceLock::new();
        TABLES.get_or_init(|| {
            let data = data!("vocab-qwen3");
            let merges = strings(&data["merges"]);
            let mut tokens = strings(&data["base"]);
            tokens.extend(merges.iter().map(|merge| merge.replacen(' ', "", 1)));
            let mut kinds = vec![TokenKind::Normal; tokens.len()];
            for added in data["added"].as_array().unwrap() {
                tokens.push(added[0].as_str().unwrap().to_owned());
                kinds.push(TokenKind::from_number(added[1].as_i64().unwrap() as i32));
            }
            Qwen3 { tokens, kinds, merges }
        })
    }

    pub(crate) fn vocabulary(&self, pre: &'static str) -> Vocabulary<'_> {
        Vocabulary {
            model: "gpt2",
            pre: Some(pre),
            tokens: &self.tokens,
            kinds: self.kinds.clone(),
            merges: &self.merges,
            eos: Some(151_645),
            add_bos: Some(false),
            ..Vocabulary::default()
        }
    }
}

pub(crate) fn qwen3() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| Tokenizer::new(&Qwen3::get().vocabulary("qwen2")).unwrap())
}

pub(crate) fn spm_with_prefix(prefix: Option<bool>) -> Tokenizer {
    let data = data!("vocab-llama-spm");
    let tokens = strings(&data["tokens"]);
    let scores: Vec<f32> =
        data["scores"].as_array().unwrap().iter().map(|score| score.as_f64().unwrap() as f32).collect();
    let mut kinds: Vec<TokenKind> = data["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| TokenKind::from_number(kind.as_i64().unwrap() as i32))
        .collect();
    kinds.resize(tokens.len(), TokenKind::Normal);
    let vocabulary = Vocabulary {
        model: "llama",
        tokens: &tokens,
        kinds,
        scores,
        bos: Some(1),
        eos: Some(2),
        unk: Some(0),
        add_bos: Some(true),
        add_space_prefix: prefix,
        ..Vocabulary::default()
    };
    Tokenizer::new(&vocabulary).unwrap()
}

pub(crate) fn spm() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| spm_with_prefix(None))
}

/// A vocabulary of the 256 byte tokens and some more.
pub(crate) fn small(
    more: &[(&str, TokenKind)],
    merges: &[&str],
    change: impl Fn(&mut Vocabulary),
) -> Result<Tokenizer, TokenizerError> {
    let mut tokens = Qwen3::get().tokens[..256].to_vec();
    let mut kinds = vec![TokenKind::Normal; 256];
    for &(text, kind) in more {
        tokens.push(text.to_owned());
        kinds.push(kind);
    }
    let merges: Vec<String> = merges.iter().map(|&merge| merge.to_owned()).collect();
    let mut vocabulary = Vocabulary {
        model: "gpt2",
        pre: Some("qwen2"),
        tokens: &tokens,
        kinds,
        merges: &merges,
        ..Vocabulary::default()
    };
    change(&mut vocabulary);
    Tokenizer::new(&vocabulary)
}

pub(crate) use data;
