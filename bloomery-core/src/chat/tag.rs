//! One `{% ... %}` or `{{ ... }}` of a template, cut into tokens.

use std::ops::Range;

/// A word, a string literal or one character of punctuation inside a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Bytes of the tag.
    pub(super) range: Range<usize>,
    /// Brackets open around it; an opening bracket counts itself.
    pub(super) depth: usize,
}

/// The tag at the start of a text, delimiters included.
#[derive(Debug)]
pub(super) struct Tag<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token>,
    /// Where the closing delimiter starts, its white space marker included.
    pub(super) close: usize,
    /// Every bracket has its partner.
    pub(super) balanced: bool,
}

impl<'a> Tag<'a> {
    /// Reads the tag that `text` starts with; `end` is its closing delimiter. A tag that is never closed takes the
    /// rest of the text.
    pub(super) fn read(text: &'a str, end: &str) -> Tag<'a> {
        let bytes = text.as_bytes();
        let mut tag = Tag { text, tokens: Vec::new(), close: text.len(), balanced: true };
        let (mut at, mut depth) = (2, 0_usize);
        if matches!(bytes.get(at), Some(b'-' | b'+')) {
            at += 1;
        }
        while let Some(&byte) = bytes.get(at) {
            if bytes[at..].starts_with(end.as_bytes()) {
                let marked = tag
                    .tokens
                    .pop_if(|last| last.range.end == at && matches!(bytes[last.range.start], b'-' | b'+'));
                tag.close = marked.map_or(at, |marker| marker.range.start);
                tag.text = &text[..at + end.len()];
                break;
            }
            let width = match byte {
                b'\'' | b'"' => string_len(&bytes[at..]),
                b' ' | b'\n' | b'\t' => {
                    at += 1;
                    continue;
                }
                _ => word_len(&bytes[at..]).max(1),
            };
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => tag.balanced = false,
                },
                _ => {}
            }
            tag.tokens.push(Token { range: at..at + width, depth });
            at += width;
        }
        tag.balanced &= depth == 0;
        tag
    }

    /// The text of the token at `index`, empty past the end.
    pub(super) fn word(&self, index: usize) -> &'a str {
        self.tokens.get(index).map_or("", |token| &self.text[token.range.clone()])
    }

    /// The first token from `from` on that stands outside brackets and is one of `words`.
    pub(super) fn find(&self, from: usize, words: &[&str]) -> Option<usize> {
        (from..self.tokens.len()).find(|&at| {
            let attribute = at > 0 && self.word(at - 1) == ".";
            self.tokens[at].depth == 0 && !attribute && words.contains(&self.word(at))
        })
    }
}

fn string_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            _ if byte == bytes[0] => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Length of the name or number at the start of `bytes`; other alphabets count as names.
fn word_len(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_' || !byte.is_ascii()).count()
}
