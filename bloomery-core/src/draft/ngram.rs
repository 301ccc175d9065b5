//! Guesses from the text itself: the last tokens are looked for in what came before, and what followed them then is the guess.

use super::Ngram;
use super::source::{Proposal, Source};

/// The longest ending that is looked for.
const LONGEST: usize = 16;

/// Places of a table that are looked at. A text made to collide cannot cost more than this.
const PROBES: usize = 64;

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

/// An n-gram: a part of its hash, so that most others are told apart without a look at the text, and where it has ended.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    hash: u32,
    /// 0 in a free place.
    end: u32,
}

/// Open addressing.
#[derive(Debug)]
struct Table {
    n: usize,
    entries: Vec<Entry>,
    used: usize,
}

impl Table {
    fn new(n: usize) -> Self {
        Self { n, entries: vec![Entry::default(); 64], used: 0 }
    }

    /// Where the n-gram that the text ends with has ended before.
    fn newest(&self, history: &[u32]) -> Option<usize> {
        let start = history.len().checked_sub(self.n)?;
        let index = self.find(hash(&history[start..]), |end| self.is_at(end, history));
        let end = self.entries[index?].end as usize;
        (end > 0).then_some(end)
    }

    /// Enters the n-gram that the text ends with.
    fn enter(&mut self, history: &[u32]) {
        let Some(start) = history.len().checked_sub(self.n) else { return };
        if 2 * self.used >= self.entries.len() {
            self.grow();
        }
        let hash = hash(&history[start..]);
        let index = self.find(hash, |end| self.is_at(end, history));
        self.put(index, Entry { hash, end: history.len() as u32 });
    }

    /// Whether the text has at `end` what it ends with.
    fn is_at(&self, end: usize, history: &[u32]) -> bool {
        (1..=self.n).all(|i| history[end - i] == history[history.len() - i])
    }

    /// Where an n-gram is, or a free place for it; `None` where all nearby are taken.
    fn find(&self, hash: u32, is_at: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.entries.len() - 1;
        (0..PROBES).map(|step| (hash as usize + step) & mask).find(|&index| {
            let entry = self.entries[index];
            entry.end == 0 || entry.hash == hash && is_at(entry.end as usize)
        })
    }

    /// The newest is worth more than what was first.
    fn put(&mut self, index: Option<usize>, entry: Entry) {
        let home = entry.hash as usize & (self.entries.len() - 1);
        let place = &mut self.entries[index.unwrap_or(home)];
        self.used += usize::from(place.end == 0);
        *place = entry;
    }

    fn grow(&mut self) {
        let fresh = vec![Entry::default(); 2 * self.entries.len()];
        let mut old = std::mem::replace(&mut self.entries, fresh);
        self.used = 0;
        old.retain(|entry| entry.end > 0);
        for entry in old {
            // All are different, so a free place is all that is looked for.
            let index = self.find(entry.hash, |_| false);
            self.put(index, entry);
        }
    }
}

fn hash(gram: &[u32]) -> u32 {
    let mixed = gram.iter().fold(0u64, |hash, &token| {
        (hash ^ u64::from(token)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    });
    (mixed ^ mixed >> 32) as u32
}
