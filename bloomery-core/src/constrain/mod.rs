//! What narrows the choice of the next token: grammars, schemas, budgets for thinking.

use std::fmt;

/// Narrows the next token of one sequence. Every sampled token is fed back with [`Constraint::accept`].
pub trait Constraint: Send + fmt::Debug {
    /// What may come next.
    ///
    /// # Errors
    /// [`ConstraintError`] when the constraint cannot go on; the sequence ends with it.
    fn next(&mut self) -> Result<Next<'_>, ConstraintError>;

    /// Takes the token that was chosen. It is one that [`Constraint::next`] allowed.
    ///
    /// # Errors
    /// [`ConstraintError`] when the token does not fit.
    fn accept(&mut self, token: u32) -> Result<(), ConstraintError>;
}

/// The tokens that may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next<'a> {
    /// Every token.
    Any,
    /// Token `i` where bit `i % 32` of word `i / 32` is set.
    Among(&'a [u32]),
    /// Exactly this one; nothing is sampled.
    Only(u32),
    /// None: the text is complete.
    End,
}

/// A constraint that failed while it ran.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("constraint: {message}")]
pub struct ConstraintError {
    /// What went wrong.
    pub message: String,
}
