//! A place in a GBNF text, and what stands between quotes and brackets there.

use super::class::Class;
use super::node::Node;
use crate::constrain::GrammarError;

/// A place in a text.
pub(super) struct Cursor {
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
}

impl Cursor {
    pub(super) fn literal(&mut self) -> Result<Node, GrammarError> {
        self.at += 1;
        let mut parts = Vec::new();
        while !self.take('"') {
            parts.push(Node::Class(Class::one(self.character("`\"`")?)));
        }
        Ok(Node::Sequence(parts))
    }

    pub(super) fn class(&mut self) -> Result<Class, GrammarError> {
        self.at += 1;
        let negated = self.take('^');
        let mut ranges = Vec::new();
        while !self.take(']') {
            let low = self.character("`]`")?;
            let range = self.peek() == Some('-') && self.chars.get(self.at + 1) != Some(&']');
            let mut high = low;
            if range {
                self.at += 1;
                let start = self.at;
                high = self.character("the end of a range")?;
                if high < low {
                    self.at = start;
                    return Err(self.expected(&format!("a character after {low:?}")));
                }
            }
            ranges.push((low, high));
        }
        let class = Class::new(ranges);
        let class = if negated { class.negated() } else { class };
        if class.is_empty() {
            self.at -= 1;
            return Err(self.expected("a character"));
        }
        Ok(class)
    }

    /// One character of a literal or a class.
    fn character(&mut self, end: &str) -> Result<char, GrammarError> {
        let Some(c) = self.peek() else { return Err(self.expected(end)) };
        self.at += 1;
        if c != '\\' {
            return Ok(c);
        }
        let escape = self.peek();
        self.at += 1;
        match escape {
            Some('x') => self.code(2),
            Some('u') => self.code(4),
            Some('U') => self.code(8),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some('n') => Ok('\n'),
            Some(c @ ('\\' | '"' | '[' | ']' | '-' | '^')) => Ok(c),
            _ => {
                self.at -= 1;
                Err(self.expected("one of `x`, `u`, `U`, `t`, `r`, `n`, `\\`, `\"`, `[`, `]`, `-`, `^`"))
            }
        }
    }

    fn code(&mut self, digits: usize) -> Result<char, GrammarError> {
        let start = self.at;
        let mut code: u32 = 0;
        for _ in 0..digits {
            let digit = self.peek().and_then(|c| c.to_digit(16));
            let digit = digit.ok_or_else(|| self.expected(&format!("{digits} hexadecimal digits")))?;
            code = code << 4 | digit;
            self.at += 1;
        }
        char::from_u32(code).ok_or_else(|| {
            self.at = start;
            self.expected("the code of a character")
        })
    }

    /// Skips blanks and comments, and the ends of lines where a rule may go on after them.
    pub(super) fn space(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n' && c != '\r') {
                        self.at += 1;
                    }
                }
                ' ' | '\t' => self.at += 1,
                '\r' | '\n' if lines => self.at += 1,
                _ => break,
            }
        }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expected(&self, what: &str) -> GrammarError {
        let (line, column) = self.position(self.at);
        let found = match self.peek() {
            None => "the end of the grammar".to_owned(),
            Some('\n' | '\r') => "the end of the line".to_owned(),
            Some(c) => format!("`{c}`"),
        };
        GrammarError::Syntax { line, column, expected: what.to_owned(), found }
    }

    pub(super) fn position(&self, at: usize) -> (usize, usize) {
        let before = &self.chars[..at.min(self.chars.len())];
        let line = before.iter().filter(|&&c| c == '\n').count() + 1;
        let column = before.iter().rev().take_while(|&&c| c != '\n').count() + 1;
        (line, column)
    }
}
