//! What is measured.

use std::fmt;

/// Which side of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All tokens at once.
    Prompt,
    /// One token at a time.
    Generate,
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) kind: Kind,
    /// Tokens of one sequence.
    pub(crate) tokens: usize,
    /// Tokens in the context beforehand.
    pub(crate) depth: usize,
    /// Sequences.
    pub(crate) parallel: usize,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Prompt => "pp",
            Kind::Generate => "tg",
        };
        write!(f, "{kind}{}", self.tokens)?;
        if self.parallel > 1 {
            write!(f, " x{}", self.parallel)?;
        }
        if self.depth > 0 { write!(f, " @ d{}", self.depth) } else { Ok(()) }
    }
}
