//! Probabilities of tokens as clients see them.

use bloomery_core::sampling::{Sampled, TokenProb};
use bloomery_core::tokenizer::Tokenizer;
use serde_json::{Map, Value, json};

/// How probabilities are named and shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probs<'a> {
    /// Spells the tokens.
    pub(crate) tokenizer: &'a Tokenizer,
    /// Probabilities after the sampler chain instead of logarithms before it.
    pub(crate) post_sampling: bool,
    /// Whether control tokens have a text.
    pub(crate) special: bool,
}

impl Probs<'_> {
    /// The entry of a generated token, with its alternatives.
    pub(crate) fn entry(&self, sampled: &Sampled) -> Value {
        let logprob = sampled.logprob.unwrap_or(f32::MIN);
        let mut entry = self.token(TokenProb { id: sampled.id, logprob });
        let shown = sampled.top.iter().filter(|top| !self.post_sampling || top.prob() > 0.0);
        let top = shown.map(|&top| Value::Object(self.token(top))).collect();
        let name = if self.post_sampling { "top_probs" } else { "top_logprobs" };
        entry.insert(name.to_owned(), Value::Array(top));
        Value::Object(entry)
    }

    fn token(&self, token: TokenProb) -> Map<String, Value> {
        let bytes = self.tokenizer.token_bytes(token.id, self.special);
        let mut map = Map::new();
        map.insert("id".to_owned(), json!(token.id));
        map.insert("token".to_owned(), json!(whole(bytes)));
        map.insert("bytes".to_owned(), json!(bytes));
        if self.post_sampling {
            map.insert("prob".to_owned(), json!(f64::from(token.prob())));
        } else {
            map.insert("logprob".to_owned(), json!(f64::from(token.logprob)));
        }
        map
    }
}

/// The characters that are whole: a token may end, or consist, of a part of one.
fn whole(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}
