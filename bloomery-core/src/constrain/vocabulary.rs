//! The vocabulary as the grammar engine sees it: a trie over what tokens render as.

use std::sync::Arc;

use llguidance::toktrie::{INVALID_TOKEN, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use super::compiler::Shared;
use crate::tokenizer::{TokenKind, Tokenizer};

/// The trie has room for this many bytes a token; longer ones are never allowed.
const LONGEST: usize = 1000;

/// Tokens by their bytes. Tokens that are no text are kept apart by a leading byte that no UTF-8 text has.
pub(super) struct Vocabulary {
    tokenizer: Tokenizer,
    trie: TokTrie,
}

impl Vocabulary {
    /// The tokens of a model of `vocab` tokens.
    pub(super) fn new(tokenizer: &Tokenizer, vocab: usize) -> Vocabulary {
        let size = vocab as u32;
        let words: Vec<Vec<u8>> = (0..size).map(|id| word(tokenizer, id)).collect();
        let ends = ends(tokenizer, vocab);
        let info = TokRxInfo::new(size, ends.first().copied().unwrap_or(INVALID_TOKEN));
        let mut trie = TokTrie::from(&info, &words);
        if !ends.is_empty() {
            trie = trie.with_eos_tokens(&ends);
        }
        Vocabulary { tokenizer: tokenizer.clone(), trie }
    }

    /// The masks that all texts need.
    pub(super) fn shared(&self) -> Shared {
        let vocab = self.trie.vocab_size();
        let ends = mask(vocab, ends(&self.tokenizer, vocab).into_iter());
        let mut by_first = vec![Vec::new(); 256];
        for id in 0..vocab as u32 {
            if let Some(&first) = self.tokenizer.token_bytes(id, true).first() {
                by_first[usize::from(first)].push(id);
            }
        }
        Shared { vocab, ends, by_first }
    }

    pub(super) fn env(self) -> TokEnv {
        Arc::new(self)
    }
}

/// A bit for each of these tokens.
pub(super) fn mask(vocab: usize, ids: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut words = vec![0; vocab.div_ceil(32)];
    ids.for_each(|id| words[id as usize / 32] |= 1 << (id % 32));
    words
}

fn ends(tokenizer: &Tokenizer, vocab: usize) -> Vec<u32> {
    tokenizer.end_of_generation().iter().copied().filter(|&id| (id as usize) < vocab).collect()
}

/// What the trie holds for a token: its text; for a token that is no text the marker and its name; nothing where
/// it can be part of no text at all.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    const MARKER: u8 = TokTrie::SPECIAL_TOKEN_MARKER;
    let hidden = matches!(tokenizer.kind(id), Some(TokenKind::Control | TokenKind::Unknown));
    let bytes = tokenizer.token_bytes(id, true);
    if bytes.contains(&MARKER) || bytes.is_empty() || bytes.len() > LONGEST {
        Vec::new()
    } else if hidden || tokenizer.is_end_of_generation(id) {
        [&[MARKER], bytes].concat()
    } else {
        bytes.to_vec()
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.greedy_tokenize(bytes)
    }

    /// Whether text that has no alternative is written in tokens that are chosen here. A model chooses better, and text
    /// that a grammar forces may be a million bytes long.
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}
