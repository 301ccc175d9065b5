//! Drafts: tokens that are guessed, checked together in one step, and kept as far as they were right.
//!
//! A step of one token reads all weights of the model; a step of five reads hardly more where the model is bound by memory.
//! So a [`Source`] guesses how a text goes on, the step has the newest token and the guesses as rows, and the rows are walked
//! with the job's own sampler and constraint: what it draws from row `i` is the next token, and as long as that is what was
//! guessed, row `i + 1` is what the model says after it. The first that differs is kept too, and the positions past it are cut
//! off. Nothing is ever accepted that the sampler did not draw, so texts are distributed as without drafts; and since it draws
//! once for every token kept, and a row has the same bits beside any others, they are the same texts.
//!
//! How many tokens are worth guessing is decided step by step: [`Price`] knows what steps of so many rows take, [`Record`] how
//! often guesses of their kind were right, and a [`Purse`] bounds what a job may lose.

mod drafter;
mod ngram;
mod options;
mod price;
mod purse;
mod record;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use drafter::{Drafter, Step};
pub use options::{Block, Drafts, Ngram};
pub(crate) use price::{Offer, Price};
use purse::Purse;
use record::Record;
use source::{Proposal, Source};

/// Most rows of a step with guesses. Up to here a card replays graphs, and attention is the kernel that steps of one row use.
pub(crate) const MOST_ROWS: usize = 32;

/// Most guesses for one job in a step.
pub(crate) const MOST_TOKENS: usize = 16;
