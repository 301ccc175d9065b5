//! Byte-level BPE with ranked merges (`tokenizer.ggml.model` = `gpt2`).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::alphabet;
use super::error::TokenizerError;
use super::merge::{Merge, Merger};
use super::pre::PreTokenizer;
use super::tokens::{Tokens, fold};

/// Text that merges pass through but that is no token. It has an id after the last token's.
struct Extra {
    ids: HashMap<String, u32>,
    texts: Vec<String>,
    first: u32,
}

impl Extra {
    fn id(&mut self, tokens: &Tokens, text: &str) -> u32 {
        if let Some(id) = tokens.mergeable(text).or_else(|| self.ids.get(text).copied()) {
            return id;
        }
        let id = self.first + self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }
}

/// A byte-level BPE model.
pub(super) struct ByteBpe {
    pub(super) pre: PreTokenizer,
    /// (left id, right id) to (rank, merged id).
    merges: HashMap<(u32, u32), (u32, u32), BuildHasherDefault<PairHasher>>,
    bytes: [u32; 256],
    /// The first id that is not a token, and the texts from there on.
    first_extra: u32,
    extra: Vec<String>,
}

impl ByteBpe {
    pub(super) fn new(
        tokens: &Tokens,
        pre: Option<&str>,
        merges: &[String],
    ) -> Result<ByteBpe, TokenizerError> {
        let first = tokens.len() as u32;
        let mut extra = Extra { ids: HashMap::new(), texts: Vec::new(), first };
        let mut pairs = HashMap::with_capacity_and_hasher(merges.len(), BuildHasherDefault::default());
        let mut joined = String::new();
        for (merge, rank) in merges.iter().zip(0..) {
            // The first character belongs to the left token even if it is a space.
            let (left, right) = merge
                .bytes()
                .skip(1)
                .position(|byte| byte == b' ')
                .map(|space| (&merge[..space + 1], &merge[space + 2..]))
                .filter(|(_, right)| !right.is_empty())
                .ok_or_else(|| TokenizerError::MalformedMerge {
                    index: rank as usize,
                    merge: merge.clone(),
                })?;
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            let id = match tokens.mergeable(&joined) {
                Some(id) => id,
                None if tokens.id(&joined).is_some() => continue,
                None => extra.id(tokens, &joined),
            };
            let pair = (extra.id(tokens, left), extra.id(tokens, right));
            pairs.entry(pair).or_insert((rank, id));
        }
        let bytes = std::array::from_fn(|byte| {
            let char = alphabet::char_of(byte as u8);
            extra.id(tokens, char.encode_utf8(&mut [0; 2]))
        });
        let pre = PreTokenizer::new(pre)?;
        Ok(ByteBpe { pre, merges: pairs, bytes, first_extra: first, extra: extra.texts })
    }

    /// Appends the ids of a text without special tokens.
    pub(super) fn encode(
        &self,
        tokens: &Tokens,
        text: &str,
        ids: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut merger = Merger::default();
        let mut spelled = String::new();
        let mut start = 0;
        for end in self.pre.split(text) {
            let word = &text.as_bytes()[start..end];
            start = end;
            if self.pre.ignore_merges {
                spelled.clear();
                spelled.extend(word.iter().map(|&byte| alphabet::char_of(byte)));
                if let Some(id) = tokens.mergeable(&spelled) {
                    ids.push(id);
                    continue;
                }
            }
            merger.clear();
            for &byte in word {
                merger.push(1, self.bytes[usize::from(byte)]);
            }
            merger.run(|left, right| {
                self.merges.get(&(left.id, right.id)).map(|&(rank, id)| Merge { key: rank, id })
            });
            for symbol in merger.symbols() {
                self.emit(symbol.id, ids)?;
            }
        }
        Ok(())
    }

    /// Appends a token, or the bytes of what is none.
    fn emit(&self, id: u32, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        if id < self.first_extra {
            ids.push(id);
            return Ok(());
        }
        let text = &self.extra[(id - self.first_extra) as usize];
        for byte in text.chars().filter_map(alphabet::byte_of) {
            match self.bytes[usize::from(byte)] {
                id if id < self.first_extra => ids.push(id),
                _ => return Err(TokenizerError::NoTokenForByte { byte }),
            }
        }
        Ok(())
    }

    /// Appends the bytes that a token's text spells; a text outside the alphabet stands for itself.
    pub(super) fn render(text: &str, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        for char in text.chars() {
            match alphabet::byte_of(char) {
                Some(byte) => bytes.push(byte),
                None => {
                    bytes.truncate(start);
                    bytes.extend_from_slice(text.as_bytes());
                    return;
                }
            }
        }
    }
}

/// Hashes a pair of ids. The map's keys come from the model file only.
#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.0 = self.0 << 32 | u64::from(value);
    }

    fn finish(&self) -> u64 {
        fold(self.0)
    }
}
