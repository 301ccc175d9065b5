//! Text built by a filter, paid for out of the fuel of the rendering while it grows.

use minijinja::{Error, ErrorKind, State};

/// Levels of nesting a value may have when it is written out: what a template may keep and what a request may have,
/// together, and some.
const MAX_DEPTH: usize = 400;

/// Bytes of serialised text for one unit of fuel. Walking values costs about four times copying bytes.
const BYTES_PER_FUEL: usize = 16;

/// A string with a budget.
pub(super) struct Text<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    text: String,
    paid: usize,
    depth: usize,
}

impl<'a, 'b, 'c> Text<'a, 'b, 'c> {
    /// An empty text that draws on the fuel of `state`.
    pub(super) fn new(state: &'a State<'b, 'c>) -> Self {
        Text { state, text: String::new(), paid: 0, depth: 0 }
    }

    /// Appends, or fails when the fuel is used up.
    pub(super) fn push(&mut self, text: &str) -> Result<(), Error> {
        self.text.push_str(text);
        let due = (self.text.len() - self.paid) / BYTES_PER_FUEL;
        if due > 0 {
            self.paid += due * BYTES_PER_FUEL;
            self.state.consume_fuel(due as u64)?;
        }
        Ok(())
    }

    /// Starts a list or an object.
    pub(super) fn open(&mut self, text: &str) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let detail = format!("cannot write a value that nests more than {MAX_DEPTH} levels deep");
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        self.state.consume_fuel(1)?;
        self.push(text)
    }

    /// Ends a list or an object.
    pub(super) fn close(&mut self, text: &str) -> Result<(), Error> {
        self.depth -= 1;
        self.push(text)
    }

    /// Lists and objects open now.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// What was built.
    pub(super) fn into_string(self) -> String {
        self.text
    }
}
