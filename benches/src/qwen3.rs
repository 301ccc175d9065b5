//! The tables of the Qwen3 tokenizer, 151,669 tokens, from the test data of bloomery-core.

use std::io::Read;

use bloomery_core::tokenizer::{TokenKind, Tokenizer, Vocabulary};
use flate2::read::GzDecoder;
use serde_json::Value;

const FILE: &[u8] = include_bytes!("../../bloomery-core/tests/data/tokenizer/vocab-qwen3.json.gz");

/// The arrays of a model file.
#[derive(Debug)]
pub struct Qwen3 {
    /// The index is the id.
    pub tokens: Vec<String>,
    /// One for each token: 1 is text, the others are not.
    pub kinds: Vec<i32>,
    /// `left right`, best first.
    pub merges: Vec<String>,
}

impl Qwen3 {
    /// The token that ends a turn.
    pub const EOS: u32 = 151_645;

    /// Reads them.
    ///
    /// # Panics
    /// When the test data is not what its README says.
    #[must_use]
    pub fn read() -> Self {
        let mut text = String::new();
        GzDecoder::new(FILE).read_to_string(&mut text).expect("the test data is a gzip file");
        let data: Value = serde_json::from_str(&text).expect("the test data is JSON");
        let merges = strings(&data["merges"]);
        let mut tokens = strings(&data["base"]);
        tokens.extend(merges.iter().map(|merge| merge.replacen(' ', "", 1)));
        let mut kinds = vec![1; tokens.len()];
        for added in data["added"].as_array().expect("an array of pairs") {
            tokens.push(added[0].as_str().expect("a text").to_owned());
            kinds.push(added[1].as_i64().expect("a number") as i32);
        }
        Self { tokens, kinds, merges }
    }

    /// The tokenizer of this project for them.
    ///
    /// # Panics
    /// When the tables do not fit each other.
    #[must_use]
    pub fn tokenizer(&self) -> Tokenizer {
        let vocabulary = Vocabulary {
            model: "gpt2",
            pre: Some("qwen2"),
            tokens: &self.tokens,
            kinds: self.kinds.iter().map(|kind| TokenKind::from_number(*kind)).collect(),
            merges: &self.merges,
            eos: Some(Self::EOS),
            add_bos: Some(false),
            ..Vocabulary::default()
        };
        Tokenizer::new(&vocabulary).expect("the tables are complete")
    }
}

fn strings(value: &Value) -> Vec<String> {
    let texts = value.as_array().expect("an array of texts");
    texts.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}
