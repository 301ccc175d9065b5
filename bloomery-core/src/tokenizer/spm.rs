//! SentencePiece vocabularies with scores (`tokenizer.ggml.model` = `llama`).

use super::error::TokenizerError;
use super::merge::{Merge, Merger};
use super::special::{Matcher, Segment};
use super::tokens::{Tokens, fold};
use super::vocabulary::TokenKind;

/// How SentencePiece writes a space.
const SPACE: char = '\u{2581}';
/// The id of a character that is no token.
const NO_TOKEN: u32 = u32::MAX;

/// A SentencePiece model that merges by score.
pub(super) struct Spm {
    /// Per token: smaller merges first.
    keys: Vec<u32>,
    bytes: [Option<u32>; 256],
    unk: Option<u32>,
    longest: usize,
    pub(super) space_prefix: bool,
    /// Runs of spaces that are tokens, spelled with [`SPACE`].
    runs: Option<Matcher>,
    joints: Joints,
}

/// Which two characters stand next to each other in some token, as a filter that may say yes for others.
///
/// Where it says no, no token spans the two, so the text can be cut there before merging. That keeps the
/// merger's heap in the cache: 4 MB of English in one heap went at 0.4 MB/s.
struct Joints(Vec<u64>);

impl Joints {
    /// 2^20 bits: the 33 692 pairs of Gemma 3 fill 3 % of them.
    const BITS: u64 = 1 << 20;

    fn new() -> Joints {
        Joints(vec![0; (Self::BITS / 64) as usize])
    }

    fn place(left: char, right: char) -> (usize, u64) {
        let bit = fold(u64::from(u32::from(left)) << 32 | u64::from(u32::from(right))) % Self::BITS;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn add(&mut self, text: &str) {
        for (left, right) in text.chars().zip(text.chars().skip(1)) {
            let (word, bit) = Self::place(left, right);
            self.0[word] |= bit;
        }
    }

    fn may_join(&self, left: char, right: char) -> bool {
        let (word, bit) = Self::place(left, right);
        self.0[word] & bit != 0
    }
}

impl Spm {
    /// `scores` is as long as the vocabulary or empty (all zero).
    pub(super) fn new(tokens: &Tokens, scores: &[f32], unk: Option<u32>, space_prefix: bool) -> Spm {
        let keys = if scores.is_empty() {
            vec![0; tokens.len()]
        } else {
            scores.iter().map(|&score| key(score)).collect()
        };
        let mut bytes = [None; 256];
        let mut longest = 0;
        let mut joints = Joints::new();
        for (id, text, kind) in tokens.iter() {
            if kind.is_mergeable() {
                longest = longest.max(text.len());
                joints.add(text);
            }
            if let Some(byte) = (kind == TokenKind::Byte).then(|| byte(text)).flatten() {
                bytes[usize::from(byte)] = Some(id);
            }
        }
        let runs = Matcher::new(space_runs(tokens));
        Spm { keys, bytes, unk, longest, space_prefix, runs, joints }
    }

    /// Appends the ids of a text without special tokens. `first`: the text is at the start or follows a
    /// special token, where the model wants a space.
    pub(super) fn encode(
        &self,
        tokens: &Tokens,
        text: &str,
        first: bool,
        ids: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut escaped = String::with_capacity(text.len() + text.len() / 4 + SPACE.len_utf8());
        if first && self.space_prefix {
            escaped.push(SPACE);
        }
        escaped.extend(text.chars().map(|char| if char == ' ' { SPACE } else { char }));
        if escaped.len() >= u32::MAX as usize {
            return Err(TokenizerError::TextTooLong { bytes: escaped.len(), limit: u32::MAX as usize - 1 });
        }
        // A run of spaces was cut out before, so only one that mixes spaces and U+2581 is left to find.
        let runs = if text.contains(SPACE) { self.runs.as_ref() } else { None };
        let mut merger = Merger::default();
        for segment in Matcher::segments(runs, &escaped) {
            match segment {
                Segment::Token(id) => ids.push(id),
                Segment::Text(part) => self.encode_part(tokens, part, &mut merger, ids)?,
            }
        }
        Ok(())
    }

    /// Cuts a text where no token joins its characters, and merges each part.
    fn encode_part(
        &self,
        tokens: &Tokens,
        text: &str,
        merger: &mut Merger,
        ids: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut start = 0;
        for ((_, left), (at, right)) in text.char_indices().zip(text.char_indices().skip(1)) {
            if !self.joints.may_join(left, right) {
                self.merge(tokens, &text[start..at], merger, ids)?;
                start = at;
            }
        }
        self.merge(tokens, &text[start..], merger, ids)
    }

    fn merge(
        &self,
        tokens: &Tokens,
        text: &str,
        merger: &mut Merger,
        ids: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        merger.clear();
        for char in text.chars() {
            let id = tokens.mergeable(char.encode_utf8(&mut [0; 4])).unwrap_or(NO_TOKEN);
            merger.push(char.len_utf8() as u32, id);
        }
        merger.run(|left, right| {
            let end = (right.start + right.len) as usize;
            let joined = text.get(left.start as usize..end).filter(|joined| joined.len() <= self.longest)?;
            let id = tokens.mergeable(joined)?;
            Some(Merge { key: self.keys[id as usize], id })
        });
        for symbol in merger.symbols() {
            if symbol.id != NO_TOKEN {
                ids.push(symbol.id);
                continue;
            }
            for &byte in &text.as_bytes()[symbol.start as usize..(symbol.start + symbol.len) as usize] {
                let id = self.bytes[usize::from(byte)].or(self.unk);
                ids.push(id.ok_or(TokenizerError::NoTokenForByte { byte })?);
            }
        }
        Ok(())
    }

    /// Appends the bytes that a token renders as.
    pub(super) fn render(text: &str, kind: TokenKind, bytes: &mut Vec<u8>) {
        match (kind, byte(text)) {
            (TokenKind::Byte, Some(byte)) => bytes.push(byte),
            (TokenKind::Normal, _) => bytes.extend_from_slice(text.replace(SPACE, " ").as_bytes()),
            _ => bytes.extend_from_slice(text.as_bytes()),
        }
    }
}

/// The user-defined tokens that are nothing but spaces, spelled with [`SPACE`].
pub(super) fn space_runs(tokens: &Tokens) -> impl Iterator<Item = (u32, std::borrow::Cow<'_, str>)> {
    tokens
        .iter()
        .filter(|(_, text, kind)| *kind == TokenKind::UserDefined && text.bytes().all(|byte| byte == b' '))
        .map(|(id, text, _)| (id, text.replace(' ', "\u{2581}").into()))
}

/// The byte of a token spelled `<0xXX>`.
fn byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let hexadecimal = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if hexadecimal { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// Orders scores: the highest gets the smallest key, equal scores (also 0 and -0) the same, NaN the last.
fn key(score: f32) -> u32 {
    if score.is_nan() {
        return u32::MAX;
    }
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 0 { 0x7FFF_FFFF - bits } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_scores_from_high_to_low() {
        let scores =
            [f32::INFINITY, 3.5, 1.0, 1e-30, 0.0, -1e-30, -1.0, -2.0, -1e9, f32::NEG_INFINITY, f32::NAN];
        let keys = scores.map(key);
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        assert_eq!(key(0.0), key(-0.0));
    }

    #[test]
    fn byte_tokens() {
        assert_eq!((byte("<0x0A>"), byte("<0xFF>")), (Some(10), Some(255)));
        assert_eq!((byte("<0xA>"), byte("<0x+A>"), byte("0x0A")), (None, None, None));
    }
}
