//! Guesses from the text itself: the last tokens are looked for in what came before, and what followed them then is the guess.

use super::Ngram;
use super::source::{Proposal, Source};

/// The longest ending that is looked for.
const LONGEST: usize = 16;

/// Places of a table that are looked at. A text made to collide cannot cost more than this.
const PROBES: usize = 16;

/// Tokens beyond the ending found that are compared with those before it: long matches are right more often.
const FURTHER: usize = 32;

/// The last token that a length of match counts for, and how often the token after a match that long is right. Copied text is
/// right nearly always, short matches are mostly idioms; the numbers only matter until a text has shown its own.
const LENGTHS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
const PRIORS: [f64; 9] = [0.10, 0.25, 0.40, 0.55, 0.65, 0.75, 0.85, 0.90, 0.93];

/// The newest place of every n-gram of a text, for a few n.
#[derive(Debug)]
pub(super) struct NgramDraft {
    history: Vec<u32>,
    /// One for each length of n-gram, the shortest first.
    tables: Vec<Table>,
}

impl NgramDraft {
    pub(super) fn new(options: &Ngram) -> Self {
        let longest = options.longest.clamp(1, LONGEST);
        let shortest = options.shortest.clamp(1, longest);
        Self { history: Vec::new(), tables: (shortest..=longest).map(Table::new).collect() }
    }

    /// Where the text goes on as it did after the longest ending that came before, and how many tokens match.
    fn find(&self) -> Option<(usize, usize)> {
        let end = self.history.len();
        let place = self.tables.iter().rev().find_map(|table| table.newest(&self.history))?;
        let mut back =
            (1..=place.min(FURTHER)).take_while(|i| self.history[place - i] == self.history[end - i]);
        Some((place, back.by_ref().count()))
    }
}

impl Source for NgramDraft {
    fn push(&mut self, token: u32) {
        // What ends the text is entered when it is known what follows.
        for table in &mut self.tables {
            table.enter(&self.history);
        }
        self.history.push(token);
    }

    fn propose(&mut self, most: usize, out: &mut Proposal) {
        let Some((place, length)) = self.find() else { return };
        for i in 0..most {
            // A match that reaches into the guess repeats it.
            let token = self.history.get(place + i).copied();
            let token = token.unwrap_or_else(|| out.tokens[place + i - self.history.len()]);
            out.push(token, kind(length + i));
        }
    }

    fn priors(&self) -> &'static [f64] {
        &PRIORS
    }
}

/// Guesses after matches of about this length are of one kind: after `n` right ones of a match it is longer by `n`.
fn kind(length: usize) -> usize {
    LENGTHS.iter().position(|&most| length <= most).unwrap_or(LENGTHS.len())
}

/// Open addressing: places are those where an n-gram has ended, 0 is a free one.
#[derive(Debug)]
struct Table {
    n: usize,
    places: Vec<u32>,
    used: usize,
}

impl Table {
    fn new(n: usize) -> Self {
        Self { n, places: vec![0; 64], used: 0 }
    }

    /// The end of the n-gram that the text ends with, where it came before.
    fn newest(&self, history: &[u32]) -> Option<usize> {
        let gram = history.last_chunk_of(self.n)?;
        let found = self.probe(gram, history);
        (found.1 != 0).then_some(found.1 as usize)
    }

    /// Enters the n-gram that the text ends with.
    fn enter(&mut self, history: &[u32]) {
        let Some(gram) = history.last_chunk_of(self.n) else { return };
        if 2 * self.used >= self.places.len() {
            self.grow(history);
        }
        let (index, before) = self.probe(gram, history);
        self.used += usize::from(before == 0 && self.places[index] == 0);
        self.places[index] = history.len() as u32;
    }

    /// Where an n-gram is or belongs, and its place in the text, 0 where it has none.
    fn probe(&self, gram: &[u32], history: &[u32]) -> (usize, u32) {
        let mask = self.places.len() - 1;
        let home = hash(gram) & mask;
        for step in 0..PROBES {
            let index = (home + step) & mask;
            let place = self.places[index];
            if place == 0 || history[place as usize - self.n..place as usize] == *gram {
                return (index, place);
            }
        }
        // Nothing is free nearby: the newest is worth more than what was first.
        (home, 0)
    }

    fn grow(&mut self, history: &[u32]) {
        let fresh = vec![0; 2 * self.places.len()];
        let mut old: Vec<u32> =
            std::mem::replace(&mut self.places, fresh).into_iter().filter(|&place| place != 0).collect();
        // Where two want one place, the newer has it.
        old.sort_unstable();
        self.used = 0;
        for place in old {
            let end = place as usize;
            let (index, _) = self.probe(&history[end - self.n..end], history);
            self.used += usize::from(self.places[index] == 0);
            self.places[index] = place;
        }
    }
}

/// The last `n` of a slice.
trait Ending {
    fn last_chunk_of(&self, n: usize) -> Option<&[u32]>;
}

impl Ending for [u32] {
    fn last_chunk_of(&self, n: usize) -> Option<&[u32]> {
        self.len().checked_sub(n).map(|start| &self[start..])
    }
}

fn hash(gram: &[u32]) -> usize {
    let mixed = gram.iter().fold(0u64, |hash, &token| {
        (hash ^ u64::from(token)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    });
    (mixed ^ mixed >> 32) as usize
}
