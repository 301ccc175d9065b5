//! What guesses how a text goes on.

use std::fmt;

/// Guesses the next tokens of one text.
pub(super) trait Source: Send + fmt::Debug {
    /// Takes in the next token of the text, which stays: one of the prompt, or one that was generated, guessed or not.
    fn push(&mut self, token: u32);

    /// Guesses at most `most` tokens that come next. `out` is empty before.
    fn propose(&mut self, most: usize, out: &mut Proposal);

    /// For each kind of guess how likely it is right before anything is known of a text.
    fn priors(&self) -> &'static [f64];
}

/// Guessed tokens, one after the other.
#[derive(Debug, Default)]
pub(super) struct Proposal {
    pub(super) tokens: Vec<u32>,
    /// What kind of guess each is, an index into [`Source::priors`]. Those of a kind share how often they were right.
    pub(super) kinds: Vec<usize>,
}

impl Proposal {
    pub(super) fn push(&mut self, token: u32, kind: usize) {
        self.tokens.push(token);
        self.kinds.push(kind);
    }

    pub(super) fn clear(&mut self) {
        self.tokens.clear();
        self.kinds.clear();
    }
}
