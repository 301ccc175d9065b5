//! The guesses of one job.

use super::ngram::NgramDraft;
use super::{Block, Drafts, MOST_TOKENS, Ngram, Offer, Price, Proposal, Purse, Record, Source};

/// How likely the block's first guess is right, the second given that the first is, and so on, before anything is known of a text.
const BLOCK_PRIORS: &[f64] =
    &[0.75, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.4, 0.35, 0.35, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3];

/// Guesses how a job's text goes on, and knows how well it did.
#[derive(Debug)]
pub(crate) struct Drafter {
    text: Option<Guesser>,
    block: Option<Guesser>,
    purse: Purse,
    proposal: Proposal,
    /// The proposal is the block's, which makes it when it is known how long it is to be.
    by_block: bool,
    /// How likely the first `i + 1` tokens of the proposal are all right.
    chances: Vec<f64>,
    /// The guess that the next token is compared with; past the end after a wrong one.
    next: usize,
}

/// A kind of guesses: how many are made and how well they did.
#[derive(Debug)]
struct Guesser {
    /// None for those of the block.
    source: Option<Box<dyn Source>>,
    most: usize,
    least: usize,
    priced: bool,
    record: Record,
}

impl Guesser {
    fn ngram(options: &Ngram) -> Option<Self> {
        let source = Box::new(NgramDraft::new(options));
        (options.most > 0)
            .then(|| Self { least: options.least, ..Self::text(source, options.most, options.priced) })
    }

    fn text(source: Box<dyn Source>, most: usize, priced: bool) -> Self {
        let record = Record::new(source.priors());
        Self { source: Some(source), most: most.min(MOST_TOKENS), least: 0, priced, record }
    }

    fn block(options: Block, most: usize) -> Option<Self> {
        let (most, record) = (options.most.min(most).min(MOST_TOKENS), Record::new(BLOCK_PRIORS));
        (most > 0).then_some(Self { source: None, most, least: 0, priced: options.priced, record })
    }
}

impl Drafter {
    /// Guesses after `history`, unless `drafts` is off. The model's block guesses at most `of_block` tokens.
    pub(crate) fn new(drafts: &Drafts, of_block: usize, history: &[u32]) -> Option<Self> {
        let (text, block) = match drafts {
            Drafts::Off => (None, None),
            Drafts::Ngram(options) => (Guesser::ngram(options), None),
            Drafts::Block(options) => (None, Guesser::block(*options, of_block)),
            Drafts::Best(ngram, block) => (Guesser::ngram(ngram), Guesser::block(*block, of_block)),
        };
        let mut drafter = Self::of(text, block);
        if drafter.text.is_none() && drafter.block.is_none() {
            return None;
        }
        history.iter().for_each(|&token| drafter.push(token));
        Some(drafter)
    }

    fn of(text: Option<Guesser>, block: Option<Guesser>) -> Self {
        Self {
            text,
            block,
            purse: Purse::default(),
            proposal: Proposal::default(),
            by_block: false,
            chances: Vec::new(),
            next: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn with_source(source: Box<dyn Source>, most: usize, priced: bool) -> Self {
        Self::of(Some(Guesser::text(source, most, priced)), None)
    }

    /// Guesses at most `room` tokens.
    pub(crate) fn propose(&mut self, room: usize) {
        self.proposal.clear();
        self.chances.clear();
        (self.next, self.by_block) = (0, false);
        if let Some(Guesser { source: Some(source), most, record, .. }) = &mut self.text {
            // One guess is made where there is no room for a check: whether it was right is seen all the same.
            source.propose((*most).min(room.max(1)), &mut self.proposal);
            let mut chance = 1.0;
            for &kind in self.proposal.kinds.iter().take(room) {
                chance *= record.chance(kind);
                self.chances.push(chance);
            }
        }
        let Some(block) = self.block.as_ref().filter(|_| room > 0) else { return };
        if self.chances.first().is_none_or(|&first| first < block.record.chance(0)) {
            self.proposal.clear();
            self.by_block = true;
            let mut chance = 1.0;
            self.chances = (0..block.most.min(room))
                .map(|kind| {
                    chance *= block.record.chance(kind);
                    chance
                })
                .collect();
        }
    }

    fn guesser(&self) -> Option<&Guesser> {
        if self.by_block { self.block.as_ref() } else { self.text.as_ref() }
    }

    /// What [`Price::lengths`] is to choose from: nothing after too many losses.
    pub(crate) fn offer(&self) -> Offer<'_> {
        let Some(&Guesser { least, priced, .. }) = self.guesser() else { return Offer::NONE };
        let open = !priced || self.purse.is_open();
        let chances: &[f64] = if open { &self.chances } else { &[] };
        Offer { chances, least, priced, by_block: self.by_block }
    }

    /// How many guesses the block has to make before `length` of them can be checked.
    pub(crate) fn wants(&self, length: usize) -> usize {
        if self.by_block { length } else { 0 }
    }

    /// Takes in what the block guesses.
    pub(crate) fn fill(&mut self, guesses: &[u32]) {
        self.proposal.clear();
        guesses.iter().enumerate().for_each(|(kind, &token)| self.proposal.push(token, kind));
    }

    /// The first `length` guesses, or as many as there are.
    pub(crate) fn guesses(&self, length: usize) -> &[u32] {
        &self.proposal.tokens[..length.min(self.proposal.tokens.len())]
    }

    /// Takes in a token that was generated, whether or not it was guessed.
    pub(crate) fn push(&mut self, token: u32) {
        let guesser = if self.by_block { &mut self.block } else { &mut self.text };
        if let (Some(&guess), Some(&kind), Some(guesser)) =
            (self.proposal.tokens.get(self.next), self.proposal.kinds.get(self.next), guesser)
        {
            guesser.record.judged(kind, guess == token);
            self.next = if guess == token { self.next + 1 } else { usize::MAX };
        }
        if let Some(Guesser { source: Some(source), .. }) = &mut self.text {
            source.push(token);
        }
    }

    /// Takes in what a step took, `checked` of whose `guessed` rows beside those of `streams` were this job's and `right` of
    /// them right.
    pub(crate) fn settle(&mut self, price: &Price, step: Step, (checked, right): (usize, usize)) {
        let Some(plain) = price.plain(step.streams) else { return };
        let share = if step.guessed == 0 { 0.0 } else { checked as f64 / step.guessed as f64 };
        let gained = right as f64 * plain / step.streams as f64;
        // What steps of so many rows take: one that was disturbed is not the fault of guesses.
        let seconds = price.known(step.streams + step.guessed).unwrap_or(step.seconds) + step.drafting;
        self.purse.settle(seconds, share * (seconds - plain).max(0.0) - gained, plain);
    }
}

/// A step that was run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) streams: usize,
    pub(crate) guessed: usize,
    /// What it took, without what the block took to guess.
    pub(crate) seconds: f64,
    /// What the block took.
    pub(crate) drafting: f64,
}
