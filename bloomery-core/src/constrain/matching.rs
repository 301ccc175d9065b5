//! A text that grows token by token under a compiled grammar.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use llguidance::TokenParser;
use llguidance::api::StopReason;
use llguidance::toktrie::{INVALID_TOKEN, SimpleVob};

use super::compiler::Shared;
use super::{Constraint, ConstraintError, Next};

/// Follows one text. Clones of the parser share the automaton of its terminals, which grows where texts lead.
#[derive(Clone)]
pub(super) struct Matching {
    parser: TokenParser,
    shared: Arc<Shared>,
    mask: SimpleVob,
}

impl Matching {
    pub(super) fn new(parser: TokenParser, shared: Arc<Shared>) -> Matching {
        Matching { parser, shared, mask: SimpleVob::new() }
    }

    /// Takes text before any token.
    pub(super) fn begin(&mut self, text: &[u8]) -> Result<(), ConstraintError> {
        let taken = guarded(|| self.parser.parser.apply_token(text, INVALID_TOKEN).map_err(describe))?;
        if taken == 0 { Ok(()) } else { Err(failed("the grammar takes back text")) }
    }

    /// Whether the text may end here.
    pub(super) fn may_end(&mut self) -> Result<bool, ConstraintError> {
        guarded(|| Ok(self.parser.is_accepting()))
    }
}

impl Constraint for Matching {
    fn next(&mut self) -> Result<Next<'_>, ConstraintError> {
        if self.parser.stopped() {
            return Ok(Next::End);
        }
        let Matching { parser, mask, .. } = self;
        let may_end = guarded(|| {
            *mask = parser.compute_mask().map_err(|error| match parser.stop_reason() {
                StopReason::NoExtensionBias => "no token of the vocabulary goes on with this text".to_owned(),
                _ => describe(error),
            })?;
            Ok(parser.is_accepting())
        })?;
        let words = &self.mask.as_slice()[..self.shared.words()];
        if may_end && words.iter().zip(&self.shared.ends).all(|(word, ends)| word & !ends == 0) {
            return Ok(Next::End);
        }
        Ok(only(words).map_or(Next::Among(words), Next::Only))
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        let parser = &mut self.parser;
        guarded(|| {
            let dropped = parser.consume_token(token).map_err(describe)?;
            parser.check_stop().map_err(describe)?;
            if dropped == 0 { Ok(()) } else { Err("the grammar takes back text".to_owned()) }
        })
    }

    fn fork(&self) -> Option<Box<dyn Constraint>> {
        Some(Box::new(self.clone()))
    }
}

impl fmt::Debug for Matching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matching").field("tokens", &self.parser.num_tokens()).finish_non_exhaustive()
    }
}

/// The one token that is set, if it is one.
fn only(words: &[u32]) -> Option<u32> {
    let mut set = words.iter().enumerate().filter(|(_, word)| **word != 0);
    let (index, word) = set.next()?;
    let alone = word.is_power_of_two() && set.next().is_none();
    alone.then(|| index as u32 * 32 + word.trailing_zeros())
}

/// The parser keeps its promises with assertions. None may end the thread that serves others.
fn guarded<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, ConstraintError> {
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("the parser failed".to_owned()));
    result.map_err(|message| ConstraintError { message })
}

fn failed(message: &str) -> ConstraintError {
    ConstraintError { message: message.to_owned() }
}

fn describe(error: impl fmt::Display) -> String {
    super::compiler::first_line(&error.to_string())
}
