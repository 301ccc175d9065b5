//! Sets of characters.

use std::fmt::Write;

/// Ranges of characters, ascending, apart from each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Class(Vec<(char, char)>);

impl Class {
    /// The characters of these ranges.
    pub(super) fn new(mut ranges: Vec<(char, char)>) -> Class {
        ranges.sort_unstable();
        let mut merged: Vec<(char, char)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some((_, end)) if after(*end).is_none_or(|next| low <= next) => *end = high.max(*end),
                _ => merged.push((low, high)),
            }
        }
        Class(merged)
    }

    pub(super) fn one(c: char) -> Class {
        Class(vec![(c, c)])
    }

    pub(super) fn any() -> Class {
        Class(vec![('\0', char::MAX)])
    }

    /// Every other character.
    pub(super) fn negated(&self) -> Class {
        let mut rest = Vec::new();
        let mut next = Some('\0');
        for &(low, high) in &self.0 {
            if let (Some(from), Some(to)) = (next, before(low))
                && from <= to
            {
                rest.push((from, to));
            }
            next = after(high);
        }
        rest.extend(next.map(|from| (from, char::MAX)));
        Class(rest)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a character is in both.
    pub(super) fn meets(&self, other: &Class) -> bool {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            if x.1 < y.0 {
                a.next();
            } else if y.1 < x.0 {
                b.next();
            } else {
                return true;
            }
        }
        false
    }

    /// Adds the characters of `other`.
    pub(super) fn join(&mut self, other: &Class) {
        let ranges = self.0.iter().chain(&other.0).copied().collect();
        *self = Class::new(ranges);
    }

    /// As part of a regular expression.
    pub(super) fn write(&self, out: &mut String) {
        out.push('[');
        for &(low, high) in &self.0 {
            write_char(low, out);
            if low != high {
                out.push('-');
                write_char(high, out);
            }
        }
        out.push(']');
    }
}

/// A character as part of a regular expression, whatever it is.
pub(super) fn write_char(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() {
        out.push(c);
    } else {
        let _ = write!(out, "\\x{{{:X}}}", c as u32);
    }
}

fn after(c: char) -> Option<char> {
    match c {
        '\u{D7FF}' => Some('\u{E000}'),
        c => char::from_u32(c as u32 + 1),
    }
}

fn before(c: char) -> Option<char> {
    match c {
        '\u{E000}' => Some('\u{D7FF}'),
        c => (c as u32).checked_sub(1).and_then(char::from_u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negation_is_everything_else() {
        let class = Class::new(vec![('x', 'z'), ('a', 'c'), ('d', 'd'), ('b', 'b')]);
        assert_eq!(class, Class(vec![('a', 'd'), ('x', 'z')]));
        assert_eq!(class.negated(), Class(vec![('\0', '`'), ('e', 'w'), ('{', char::MAX)]));
        assert_eq!(class.negated().negated(), class);
        assert!(Class::any().negated().is_empty());
        assert_eq!(Class::new(Vec::new()).negated(), Class::any());
        assert_eq!(Class::new(vec![('\0', '\u{D7FF}'), ('\u{E000}', char::MAX)]), Class::any());
        assert!(class.meets(&Class::one('d')) && !class.meets(&class.negated()));
    }
}
