//! The tokens' texts, and the way from a text to its id.

use super::vocabulary::TokenKind;

/// Marks a free place of the hash table; never a valid id, see [`Tokens::new`].
const FREE: u32 = u32::MAX;

/// Texts and kinds of all tokens.
///
/// One string holds every text and the hash table holds ids only: a map with owned keys costs an
/// allocation per token, which is most of the time to load a vocabulary of 250 000.
pub(super) struct Tokens {
    text: String,
    ends: Vec<usize>,
    kinds: Vec<TokenKind>,
    /// The upper half of the text's hash, and the id.
    slots: Vec<(u32, u32)>,
}

impl Tokens {
    /// Copies the texts. Tokens past the end of `kinds` are normal. Where two tokens have the
    /// same text, the later one is found by it. Empty texts are not found at all.
    pub(super) fn new(texts: &[String], kinds: &[TokenKind]) -> Tokens {
        let mut tokens = Tokens {
            text: String::with_capacity(texts.iter().map(String::len).sum()),
            ends: Vec::with_capacity(texts.len()),
            kinds: kinds
                .iter()
                .copied()
                .chain(std::iter::repeat(TokenKind::Normal))
                .take(texts.len())
                .collect(),
            slots: vec![(0, FREE); (texts.len() * 2 + 1).next_power_of_two()],
        };
        for (text, id) in texts.iter().zip(0..FREE) {
            tokens.text.push_str(text);
            tokens.ends.push(tokens.text.len());
            if !text.is_empty() {
                let (slot, tag) = tokens.slot(text);
                tokens.slots[slot] = (tag, id);
            }
        }
        tokens
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The id of a text, whatever its kind.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        Some(self.slots[self.slot(text).0].1).filter(|&id| id != FREE)
    }

    /// The id of a text that merging may produce.
    pub(super) fn mergeable(&self, text: &str) -> Option<u32> {
        self.id(text).filter(|&id| self.kinds[id as usize].is_mergeable())
    }

    /// The text of a token.
    pub(super) fn text(&self, id: u32) -> Option<&str> {
        let end = *self.ends.get(id as usize)?;
        let start = if id == 0 { 0 } else { self.ends[id as usize - 1] };
        Some(&self.text[start..end])
    }

    /// The kind of a token.
    pub(super) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// Changes the kind of an existing token.
    pub(super) fn set_kind(&mut self, id: u32, kind: TokenKind) {
        self.kinds[id as usize] = kind;
    }

    /// Ids, texts and kinds in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str, TokenKind)> {
        (0_u32..).zip(&self.kinds).map_while(|(id, &kind)| Some((id, self.text(id)?, kind)))
    }

    /// Where a text is in the table, or the free place where it belongs, and its tag. Ends because the
    /// table is at most half full.
    fn slot(&self, text: &str) -> (usize, u32) {
        let mask = self.slots.len() - 1;
        let hash = hash(text.as_bytes());
        let tag = (hash >> 32) as u32;
        let mut slot = hash as usize & mask;
        loop {
            let (found, id) = self.slots[slot];
            if id == FREE || (found == tag && self.text(id) == Some(text)) {
                return (slot, tag);
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// Multiply-and-fold over words of 8 bytes. Only ids from the model file are stored under it, so a text
/// cannot be written to make the table slow.
fn hash(bytes: &[u8]) -> u64 {
    let mut state = bytes.len() as u64;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        state = fold(state ^ word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    }
    fold(state ^ words.remainder().iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
}

/// Mixes 64 bits: both halves of the product with an odd constant (the golden ratio).
pub(super) fn fold(value: u64) -> u64 {
    let product = u128::from(value) * 0x9E37_79B9_7F4A_7C15;
    (product ^ (product >> 64)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_text_and_nothing_else() {
        let texts: Vec<String> = (0..1000).map(|number| format!("token {number}")).collect();
        let tokens = Tokens::new(&texts, &[]);
        for (text, id) in texts.iter().zip(0..) {
            assert_eq!((tokens.id(text), tokens.text(id)), (Some(id), Some(text.as_str())));
        }
        assert_eq!((tokens.id("token 1000"), tokens.id(""), tokens.text(1000)), (None, None, None));
    }

    #[test]
    fn the_later_of_two_equal_texts_is_found() {
        let texts = ["a", "", "a"].map(String::from);
        let tokens = Tokens::new(&texts, &[TokenKind::Normal, TokenKind::Normal, TokenKind::Control]);
        assert_eq!((tokens.id("a"), tokens.mergeable("a"), tokens.text(1)), (Some(2), None, Some("")));
    }
}
