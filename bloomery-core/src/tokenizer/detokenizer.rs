//! From ids back to text, one at a time.

use std::sync::Arc;

use super::Inner;

/// Turns a stream of ids into text. What it returns never splits a character; all of it together equals
/// [`Tokenizer::decode`](super::Tokenizer::decode) of the same ids. Bytes that are no UTF-8 become U+FFFD.
#[derive(Clone)]
pub struct Detokenizer {
    inner: Arc<Inner>,
    special: bool,
    /// Nothing was rendered yet, and the first space is the vocabulary's, not the text's.
    strip: bool,
    pending: Vec<u8>,
}

impl Detokenizer {
    pub(super) fn new(inner: Arc<Inner>, special: bool, strip: bool) -> Detokenizer {
        Detokenizer { inner, special, strip, pending: Vec::new() }
    }

    /// Takes the next id and returns the characters that are complete now; often none, if a character's
    /// bytes are spread over tokens. Ids outside the vocabulary render as nothing.
    pub fn push(&mut self, id: u32) -> String {
        let mut piece = self.inner.bytes(id, self.special);
        if self.strip && !piece.is_empty() {
            self.strip = false;
            piece = piece.strip_prefix(b" ").unwrap_or(piece);
        }
        self.pending.extend_from_slice(piece);
        let mut text = String::new();
        let held = drain(&self.pending, &mut text);
        self.pending.drain(..self.pending.len() - held);
        text
    }

    /// Whether bytes of an unfinished character are held back.
    #[must_use]
    pub fn is_inside_character(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Ends the stream: an unfinished character becomes U+FFFD. The detokenizer can be used again.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

impl std::fmt::Debug for Detokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Detokenizer").field("special", &self.special).field("pending", &self.pending).finish()
    }
}

/// Appends all complete characters, with U+FFFD for what cannot become one, and returns how many bytes at
/// the end (at most 3) may still become one.
fn drain(bytes: &[u8], text: &mut String) -> usize {
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let invalid = chunk.invalid();
        let unfinished = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        if chunks.peek().is_none() && unfinished {
            return invalid.len();
        }
        if !invalid.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(bytes: &[u8]) -> (String, usize) {
        let mut text = String::new();
        let held = drain(bytes, &mut text);
        (text, held)
    }

    #[test]
    fn holds_only_what_can_still_become_a_character() {
        assert_eq!(drained(b"a\xE2\x82\xAC"), ("a\u{20AC}".to_owned(), 0));
        assert_eq!(drained(b"a\xE2\x82"), ("a".to_owned(), 2));
        assert_eq!(drained(b"\xF0\x9F\x98"), (String::new(), 3));
        assert_eq!(drained(b"\xE2\x82a"), ("\u{FFFD}a".to_owned(), 0));
        assert_eq!(drained(b"\xFF\xC3"), ("\u{FFFD}".to_owned(), 1));
        assert_eq!(drained(b"\xF5"), ("\u{FFFD}".to_owned(), 0));
        assert_eq!(drained(b""), (String::new(), 0));
    }
}
