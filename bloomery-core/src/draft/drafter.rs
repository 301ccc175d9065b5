//! The guesses of one job.

use super::ngram::NgramDraft;
use super::{Drafts, MOST_TOKENS, Offer, Price, Proposal, Purse, Record, Source};

/// Guesses how a job's text goes on, and knows how well it did.
#[derive(Debug)]
pub(crate) struct Drafter {
    source: Box<dyn Source>,
    most: usize,
    least: usize,
    priced: bool,
    record: Record,
    purse: Purse,
    proposal: Proposal,
    /// How likely the first `i + 1` tokens of the proposal are all right.
    chances: Vec<f64>,
    /// The guess that the next token is compared with; past the end after a wrong one.
    next: usize,
}

impl Drafter {
    /// Guesses after `history`, unless `drafts` is off.
    pub(crate) fn new(drafts: &Drafts, history: &[u32]) -> Option<Self> {
        let Drafts::Ngram(options) = drafts else { return None };
        if options.most == 0 {
            return None;
        }
        let mut source = Box::new(NgramDraft::new(options));
        history.iter().for_each(|&token| source.push(token));
        let least = options.least;
        Some(Self { least, ..Self::with_source(source, options.most, options.priced) })
    }

    pub(super) fn with_source(source: Box<dyn Source>, most: usize, priced: bool) -> Self {
        Self {
            record: Record::new(source.priors()),
            source,
            most: most.min(MOST_TOKENS),
            least: 0,
            priced,
            purse: Purse::default(),
            proposal: Proposal::default(),
            chances: Vec::new(),
            next: 0,
        }
    }

    /// Guesses at most `room` tokens.
    pub(crate) fn propose(&mut self, room: usize) {
        self.proposal.clear();
        self.chances.clear();
        self.next = 0;
        // One guess is made where there is no room for a check: whether it was right is seen all the same.
        self.source.propose(self.most.min(room.max(1)), &mut self.proposal);
        let mut chance = 1.0;
        for &kind in self.proposal.kinds.iter().take(room) {
            chance *= self.record.chance(kind);
            self.chances.push(chance);
        }
    }

    /// What [`Price::lengths`] is to choose from: nothing after too many losses.
    pub(crate) fn offer(&self) -> Offer<'_> {
        let open = !self.priced || self.purse.is_open();
        Offer { chances: if open { &self.chances } else { &[] }, least: self.least, priced: self.priced }
    }

    /// The first `length` guesses.
    pub(crate) fn guesses(&self, length: usize) -> &[u32] {
        &self.proposal.tokens[..length]
    }

    /// Takes in a token that was generated, whether or not it was guessed.
    pub(crate) fn push(&mut self, token: u32) {
        if let (Some(&guess), Some(&kind)) =
            (self.proposal.tokens.get(self.next), self.proposal.kinds.get(self.next))
        {
            self.record.judged(kind, guess == token);
            self.next = if guess == token { self.next + 1 } else { usize::MAX };
        }
        self.source.push(token);
    }

    /// Takes in what a step took, `checked` of whose `guessed` rows beside those of `streams` were this job's and `right` of
    /// them right.
    pub(crate) fn settle(&mut self, price: &Price, step: Step, (checked, right): (usize, usize)) {
        let Some(plain) = price.plain(step.streams) else { return };
        let share = if step.guessed == 0 { 0.0 } else { checked as f64 / step.guessed as f64 };
        let gained = right as f64 * plain / step.streams as f64;
        // What steps of so many rows take: one that was disturbed is not the fault of guesses.
        let seconds = price.known(step.streams + step.guessed).unwrap_or(step.seconds);
        self.purse.settle(seconds, share * (seconds - plain).max(0.0) - gained, plain);
    }
}

/// A step that was run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) streams: usize,
    pub(crate) guessed: usize,
    pub(crate) seconds: f64,
}
