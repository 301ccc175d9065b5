//! The index against a search through the whole text.

use proptest::prelude::*;

use crate::draft::Ngram;
use crate::draft::ngram::NgramDraft;
use crate::draft::source::{Proposal, Source};

/// The newest place where the longest possible ending came before.
fn oracle(history: &[u32], (shortest, longest): (usize, usize), most: usize) -> Vec<u32> {
    let end = history.len();
    let place = (shortest..=longest.min(end))
        .rev()
        .find_map(|n| (n..end).rev().find(|&place| history[place - n..place] == history[end - n..]));
    let Some(place) = place else { return Vec::new() };
    let mut text = history.to_vec();
    (0..most).for_each(|i| text.push(text[place + i]));
    text[end..].to_vec()
}

proptest! {
    #[test]
    fn the_newest_longest_ending_is_found(
        tokens in prop::collection::vec(0u32..4, 0..300),
        shortest in 1usize..4,
        more in 0usize..4,
    ) {
        let longest = shortest + more;
        let mut draft = NgramDraft::new(&Ngram { shortest, longest, ..Ngram::default() });
        for (i, &token) in tokens.iter().enumerate() {
            draft.push(token);
            let mut out = Proposal::default();
            draft.propose(6, &mut out);
            prop_assert_eq!(out.tokens, oracle(&tokens[..=i], (shortest, longest), 6));
            prop_assert!(out.kinds.is_sorted() && out.kinds.iter().all(|&kind| kind < draft.priors().len()));
        }
    }
}

#[test]
fn a_long_text_is_indexed_in_little_time_and_found_again() {
    const LENGTH: u32 = 200_000;
    let token = |i: u32| {
        let x = (u64::from(i) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as u32
    };
    let mut draft = NgramDraft::new(&Ngram::default());
    let start = std::time::Instant::now();
    (0..LENGTH).for_each(|i| draft.push(token(i)));
    let entered = start.elapsed();
    // Copies from all over the text, the first tokens included.
    let places = (0..1000).map(|i| i * (LENGTH / 1000));
    let found = places.filter(|&place| {
        (place..place + 4).for_each(|i| draft.push(token(i)));
        let mut out = Proposal::default();
        draft.propose(8, &mut out);
        out.tokens == (place + 4..place + 12).map(token).collect::<Vec<_>>()
    });
    assert_eq!(found.count(), 1000);
    println!("{:.0} ns a token", entered.as_secs_f64() * 1e9 / f64::from(LENGTH));
    assert!(entered.as_secs_f64() < 2.0, "{entered:?}");
}

#[test]
fn a_text_of_one_token_is_no_work() {
    // Every ending came before, at every length.
    let mut draft = NgramDraft::new(&Ngram::default());
    (0..100_000).for_each(|_| draft.push(7));
    let mut out = Proposal::default();
    draft.propose(16, &mut out);
    assert_eq!(out.tokens, [7; 16]);
}
