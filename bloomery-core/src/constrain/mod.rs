//! What narrows the choice of the next token: grammars, schemas, budgets for thinking.
//!
//! A [`Grammar`] describes, [`Engine::constraint`](crate::Engine::constraint) compiles it for the vocabulary, and what
//! it returns follows one text:
//!
//! ```
//! use bloomery_core::constrain::{Grammar, Next};
//! use bloomery_core::{Engine, ModelSource};
//!
//! let engine = Engine::builder(ModelSource::demo()).plan()?.load(|_| {})?;
//! let mut constraint = engine.constraint(&Grammar::gbnf(r#"root ::= "fox" | "owl""#))?;
//! let mut text = String::new();
//! loop {
//!     let id = match constraint.next()? {
//!         Next::End => break,
//!         Next::Only(id) => id,
//!         // A sampler would choose by the logits.
//!         Next::Among(mask) => (0..).find(|id| mask[id / 32] >> (id % 32) & 1 == 1).unwrap_or(0) as u32,
//!         Next::Any => 0,
//!     };
//!     constraint.accept(id)?;
//!     text += &engine.tokenizer().decode(&[id], false);
//! }
//! assert!(text == "fox" || text == "owl");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Control tokens are part of a text only where a grammar names them. Tokens that end a generation are allowed where
//! the text may end.

mod cache;
mod compiler;
mod error;
mod gbnf;
mod grammar;
mod lark;
mod lazy;
mod matching;
mod schema;
mod thinking;
mod vocabulary;
mod watch;

use std::fmt;

pub(crate) use compiler::Compiler;
pub use error::GrammarError;
pub use grammar::Grammar;
pub use lazy::Lazy;
pub use thinking::Thinking;

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

    /// Another constraint at the same place of the same text, if there can be one.
    fn fork(&self) -> Option<Box<dyn Constraint>> {
        None
    }
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

/// What the engine makes of descriptions.
impl Compiler {
    pub(crate) fn constraint(&self, grammar: &Grammar) -> Result<Box<dyn Constraint>, GrammarError> {
        Ok(Box::new(self.matching(grammar)?))
    }

    pub(crate) fn lazy(&self, lazy: Lazy) -> Result<Box<dyn Constraint>, GrammarError> {
        lazy.build(self)
    }

    pub(crate) fn thinking(&self, thinking: Thinking) -> Result<Box<dyn Constraint>, GrammarError> {
        thinking.build(self)
    }
}
