//! Finds texts in what a model writes, wherever its tokens begin and end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind};

use super::GrammarError;
use super::compiler::Shared;
use super::vocabulary::mask;
use crate::tokenizer::Tokenizer;

/// Bytes of all texts of a watch.
const LONGEST: usize = 16 << 10;

/// Looks for any of some texts. What a token renders as counts, be it text or a control token.
pub(super) struct Watch {
    dfa: DFA,
    start: StateID,
    tokenizer: Tokenizer,
    shared: Arc<Shared>,
    /// No token ends the generation before a text is found.
    held: bool,
    /// For each state met so far the tokens that reach no further than the end of a text; `None` for all of them.
    within: Mutex<HashMap<StateID, Option<Arc<[u32]>>>>,
    /// Tokens that go beyond the end of a text which they begin. Looking at all of them takes milliseconds.
    crossing_start: OnceLock<Vec<u32>>,
}

/// How far a watch has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place(StateID);

/// A text that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Which of the texts.
    pub(super) text: usize,
    /// Bytes of the last token behind the text.
    pub(super) behind: usize,
}

impl Watch {
    pub(super) fn new(
        tokenizer: &Tokenizer,
        shared: &Arc<Shared>,
        texts: &[String],
        held: bool,
    ) -> Result<Watch, GrammarError> {
        let wrong = |message: &str| GrammarError::Text {
            what: "the text to look for",
            text: texts.first().cloned().unwrap_or_default(),
            message: message.to_owned(),
        };
        if texts.iter().any(String::is_empty) {
            return Err(wrong("it is empty"));
        }
        if texts.iter().map(String::len).sum::<usize>() > LONGEST {
            return Err(wrong("it is too long"));
        }
        let dfa = DFA::builder()
            .match_kind(MatchKind::Standard)
            .build(texts)
            .map_err(|error| wrong(&error.to_string()))?;
        let start = dfa.start_state(Anchored::No).map_err(|error| wrong(&error.to_string()))?;
        Ok(Watch {
            dfa,
            start,
            tokenizer: tokenizer.clone(),
            shared: Arc::clone(shared),
            held,
            within: Mutex::new(HashMap::new()),
            crossing_start: OnceLock::new(),
        })
    }

    pub(super) fn start(&self) -> Place {
        Place(self.start)
    }

    /// Whether a text has begun.
    pub(super) fn begun(&self, place: Place) -> bool {
        place.0 != self.start
    }

    /// Goes on with a token.
    pub(super) fn step(&self, place: &mut Place, token: u32) -> Option<Found> {
        let bytes = self.tokenizer.token_bytes(token, true);
        for (index, &byte) in bytes.iter().enumerate() {
            place.0 = self.dfa.next_state(Anchored::No, place.0, byte);
            if self.dfa.is_match(place.0) {
                let text = self.dfa.match_pattern(place.0, 0).as_usize();
                place.0 = self.start;
                return Some(Found { text, behind: bytes.len() - index - 1 });
            }
        }
        None
    }

    /// The tokens after which a text that was found is the end of what was written; `None` if that is all of them.
    pub(super) fn within(&self, place: Place) -> Option<Arc<[u32]>> {
        let lookup = || self.within.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lookup().get(&place.0) {
            return known.clone();
        }
        let mut excluded = self.crossing(place);
        if self.held {
            excluded.iter_mut().zip(&self.shared.ends).for_each(|(word, end)| *word |= end);
        }
        let within = excluded
            .iter()
            .any(|&word| word != 0)
            .then(|| excluded.iter().map(|word| !word).collect::<Arc<[u32]>>());
        lookup().insert(place.0, within.clone());
        within
    }

    /// The tokens that go beyond the end of a text.
    fn crossing(&self, place: Place) -> Vec<u32> {
        let vocab = self.shared.vocab;
        let crosses = |id: &u32| {
            let mut place = place;
            self.step(&mut place, *id).is_some_and(|found| found.behind > 0)
        };
        if place.0 == self.start {
            let all = || mask(vocab, (0..vocab as u32).filter(crosses));
            return self.crossing_start.get_or_init(all).clone();
        }
        // Where the first byte leads to the same state as at the beginning, so does the token: of 150 000 tokens a few
        // hundred are left.
        let mut crossing = self.crossing(self.start());
        for (byte, ids) in (0..=255).zip(&self.shared.by_first) {
            let next = |from| self.dfa.next_state(Anchored::No, from, byte);
            if next(place.0) == next(self.start) {
                continue;
            }
            for id in ids {
                let bit = 1 << (id % 32);
                let word = &mut crossing[*id as usize / 32];
                *word = if crosses(id) { *word | bit } else { *word & !bit };
            }
        }
        crossing
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("texts", &self.dfa.patterns_len()).finish_non_exhaustive()
    }
}
