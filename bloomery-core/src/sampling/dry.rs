//! DRY ("don't repeat yourself"): a token that would extend a sequence already in the window loses
//! multiplier * base^(length - allowed length).

use std::collections::HashMap;
use std::sync::Arc;

/// Token sequences that a repetition does not reach across, by their first token. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breakers {
    tails: Arc<HashMap<u32, Vec<Vec<u32>>>>,
}

impl Breakers {
    /// Bytes of a breaker text that count.
    const MAX_BYTES: usize = 40;
    /// Tokens of a tail that count.
    const MAX_TAIL: usize = 20;

    /// From token sequences; empty ones are skipped.
    pub fn from_sequences(sequences: impl IntoIterator<Item = Vec<u32>>) -> Self {
        let mut tails: HashMap<u32, Vec<Vec<u32>>> = HashMap::new();
        for sequence in sequences {
            if let Some((&head, tail)) = sequence.split_first() {
                let known = tails.entry(head).or_default();
                if !known.iter().any(|t| t == tail) {
                    known.push(tail.to_vec());
                }
            }
        }
        Self { tails: Arc::new(tails) }
    }

    /// From texts: each token that contains a text, and each token that ends in the beginning of one
    /// followed by the tokens of the rest.
    ///
    /// `pieces` gives the bytes of tokens 0, 1, 2, ... as they decode; `tokenize` the tokens of a text,
    /// special tokens not parsed and none added. Reads the whole vocabulary: build once, not for each
    /// request. Texts count up to 40 bytes and tails up to 20 tokens. A rest that begins inside a
    /// character is passed over: no text could be given to `tokenize`.
    pub fn from_texts<P: AsRef<[u8]>>(
        texts: &[impl AsRef<str>],
        pieces: impl IntoIterator<Item = P>,
        mut tokenize: impl FnMut(&str) -> Vec<u32>,
    ) -> Self {
        let texts: Vec<&str> = texts.iter().map(|t| clip(t.as_ref())).filter(|t| !t.is_empty()).collect();
        let mut sequences = Vec::new();
        for (id, piece) in (0u32..).zip(pieces) {
            let piece = piece.as_ref();
            for text in &texts {
                if piece.windows(text.len()).any(|w| w == text.as_bytes()) {
                    sequences.push(vec![id]);
                    continue;
                }
                for length in (1..=text.len().min(piece.len())).filter(|&n| text.is_char_boundary(n)) {
                    let (begin, rest) = text.split_at(length);
                    if piece.ends_with(begin.as_bytes()) && !rest.is_empty() {
                        let tail = tokenize(rest).into_iter().take(Self::MAX_TAIL);
                        sequences.push(std::iter::once(id).chain(tail).collect());
                    }
                }
            }
        }
        Self::from_sequences(sequences)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tails.is_empty()
    }

    fn tails(&self, head: u32) -> &[Vec<u32>] {
        self.tails.get(&head).map_or(&[], Vec::as_slice)
    }

    fn is_single(&self, id: u32) -> bool {
        self.tails(id).iter().any(Vec::is_empty)
    }

    /// How many of the newest tokens lie after the last breaker. `recent` is newest first.
    fn reach(&self, recent: &[u32]) -> usize {
        if self.is_empty() {
            return recent.len();
        }
        for (i, &head) in recent.iter().enumerate() {
            let complete =
                |tail: &&Vec<u32>| tail.len() <= i && tail.iter().eq(recent[i - tail.len()..i].iter().rev());
            if let Some(longest) = self.tails(head).iter().filter(complete).map(Vec::len).max() {
                return i - longest;
            }
        }
        recent.len()
    }
}

/// The text's first 40 bytes, whole characters only.
fn clip(text: &str) -> &str {
    let end = (0..=text.len().min(Breakers::MAX_BYTES)).rev().find(|&n| text.is_char_boundary(n));
    &text[..end.unwrap_or(0)]
}

/// The parameters of DRY, active.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dry {
    pub(super) multiplier: f32,
    pub(super) base: f32,
    pub(super) allowed: usize,
    pub(super) window: usize,
}

impl Dry {
    /// What each token loses after this window, newest token first. Linear in the window.
    pub(super) fn penalties(&self, recent: &[u32], breakers: &Breakers) -> HashMap<u32, f32> {
        let reach = breakers.reach(recent);
        if recent.len() <= self.allowed || reach < self.allowed {
            return HashMap::new();
        }
        let mut longest: HashMap<u32, usize> = HashMap::new();
        // match_lengths(recent)[k]: how far the newest tokens equal those that end k tokens ago
        for (k, length) in match_lengths(recent).into_iter().enumerate().skip(1) {
            let length = length.min(reach);
            let next = recent[k - 1];
            if length >= self.allowed && !breakers.is_single(next) {
                let best = longest.entry(next).or_insert(length);
                *best = length.max(*best);
            }
        }
        // ln of the largest f32: base^exponent stays finite
        const LN_MAX: f32 = 88.722_84;
        let limit = if self.base > 1.000_001 { (LN_MAX / self.base.ln()) as usize } else { usize::MAX };
        let penalty = |length: usize| {
            let exponent = (length - self.allowed).min(limit) as f64;
            (f64::from(self.multiplier) * f64::from(self.base).powf(exponent)) as f32
        };
        longest.into_iter().map(|(id, length)| (id, penalty(length))).collect()
    }
}

/// The Z function: for each k, the length of the longest common prefix of `s` and `s[k..]`.
fn match_lengths(s: &[u32]) -> Vec<usize> {
    let mut z = vec![0; s.len()];
    let (mut left, mut right) = (0, 0);
    for k in 1..s.len() {
        let mut n = if k < right { z[k - left].min(right - k) } else { 0 };
        while k + n < s.len() && s[n] == s[k + n] {
            n += 1;
        }
        z[k] = n;
        if k + n > right {
            (left, right) = (k, k + n);
        }
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn breakers_of_texts() {
        // tokens: 0 "a", 1 "b", 2 "xb", 3 "ab", 4 "cabd", 5 "bc"; breaker "abc"
        let pieces = ["a", "b", "xb", "ab", "cabd", "bc", "zabcz", "ca"];
        let tokenize = |text: &str| match text {
            "bc" => vec![5],
            "c" => vec![9],
            other => panic!("{other}"),
        };
        let breakers = Breakers::from_texts(&["abc"], pieces, tokenize);
        let expected = Breakers::from_sequences([vec![0, 5], vec![3, 9], vec![6], vec![7, 5]]);
        assert_eq!(breakers, expected);
        assert!(Breakers::from_texts(&[""], pieces, tokenize).is_empty());
    }

    #[test]
    fn breakers_of_long_and_wide_texts() {
        let long = "é".repeat(30);
        assert_eq!(clip(&long).len(), 40);
        let odd = format!("a{long}");
        assert_eq!(clip(&odd).len(), 39);
        // a token that ends inside the first character begins no breaker
        let breakers = Breakers::from_texts(&["é!"], [&[0xc3u8][..], "xé".as_bytes()], |rest| {
            assert_eq!(rest, "!");
            vec![4]
        });
        assert_eq!(breakers, Breakers::from_sequences([vec![1, 4]]));
    }

    #[test]
    fn reach_stops_after_the_last_breaker() {
        let breakers = Breakers::from_sequences([vec![7], vec![1, 2], vec![1, 2, 3]]);
        let reach = |oldest_first: &[u32]| {
            let newest: Vec<u32> = oldest_first.iter().rev().copied().collect();
            breakers.reach(&newest)
        };
        assert_eq!(reach(&[5, 5, 5]), 3);
        assert_eq!(reach(&[5, 7, 5]), 1);
        assert_eq!(reach(&[5, 7]), 0);
        assert_eq!(reach(&[1, 2, 5, 5]), 2);
        // of two that begin at one token the longer counts
        assert_eq!(reach(&[1, 2, 3, 5]), 1);
        assert_eq!(reach(&[9, 1]), 2);
    }

    proptest! {
        #[test]
        fn match_lengths_equal_a_comparison(s in prop::collection::vec(0u32..3, 0..40)) {
            let naive = |k: usize| s[k..].iter().zip(&s).take_while(|(a, b)| a == b).count();
            for (k, n) in match_lengths(&s).into_iter().enumerate().skip(1) {
                prop_assert_eq!(n, naive(k));
            }
        }
    }
}
