//! Text that has come but is not yet understood.

/// The unread part of a reply. Nothing is read before it is certain what it is, so how the text was cut does not
/// matter.
#[derive(Debug, Default)]
pub(super) struct Input {
    text: String,
    at: usize,
    /// No more text will come.
    pub(super) ended: bool,
    record: Option<String>,
}

impl Input {
    pub(super) fn push(&mut self, text: &str) {
        self.text.drain(..self.at);
        self.at = 0;
        self.text.push_str(text);
    }

    pub(super) fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Reads `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> &str {
        let taken = &self.text[self.at..self.at + len];
        self.at += len;
        if let Some(record) = &mut self.record {
            record.push_str(taken);
        }
        taken
    }

    /// Reads one character.
    pub(super) fn next(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.take(next.len_utf8());
        Some(next)
    }

    /// Reads white space.
    pub(super) fn skip_space(&mut self) {
        self.take(space(self.rest()));
    }

    /// Keeps what is read from here on.
    pub(super) fn record(&mut self) {
        self.record = Some(String::new());
    }

    /// What was read since [`Input::record`].
    pub(super) fn recorded(&mut self) -> String {
        self.record.take().unwrap_or_default()
    }

    /// Reads `tag` if the text goes on with it.
    pub(super) fn take_tag(&mut self, tag: &str) -> Starts {
        let starts = starts(self.rest(), tag);
        if starts == Starts::Yes {
            self.take(tag.len());
        }
        starts
    }

    /// The first of `tags` in the text.
    pub(super) fn find(&self, tags: &[&str]) -> Find {
        find(self.rest(), tags, self.ended)
    }
}

/// How far a reader came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It read something and can go on.
    More,
    /// It needs more text. Where none will come, what it reads was cut.
    Wait,
    /// What it reads is complete.
    Done,
    /// The text does not fit. What did not fit was not read.
    Fail,
}

/// Whether a text begins with a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Starts {
    Yes,
    No,
    /// The text is too short to tell.
    Maybe,
}

pub(super) fn starts(text: &str, tag: &str) -> Starts {
    if text.starts_with(tag) {
        Starts::Yes
    } else if tag.starts_with(text) {
        Starts::Maybe
    } else {
        Starts::No
    }
}

/// Where a tag stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Find {
    /// A tag stands here.
    At {
        at: usize,
        tag: usize,
    },
    /// What begins here may become a tag.
    Maybe(usize),
    No,
}

pub(super) fn find(text: &str, tags: &[&str], ended: bool) -> Find {
    for (at, _) in text.char_indices() {
        let rest = &text[at..];
        let first = rest.as_bytes()[0];
        let candidates = tags.iter().enumerate().filter(|(_, tag)| tag.as_bytes().first() == Some(&first));
        let mut maybe = false;
        for (index, tag) in candidates {
            match starts(rest, tag) {
                Starts::Yes => return Find::At { at, tag: index },
                Starts::Maybe => maybe |= !ended,
                Starts::No => {}
            }
        }
        if maybe {
            return Find::Maybe(at);
        }
    }
    Find::No
}

pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\r' | '\t')
}

/// Bytes of white space at the start.
pub(super) fn space(text: &str) -> usize {
    text.len() - text.trim_start_matches(is_space).len()
}

/// True for characters that names of tools and parameters are made of.
pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '$' | '@')
}

/// Longest name of a tool or parameter in bytes.
pub(super) const MAX_NAME: usize = 256;

#[cfg(test)]
mod tests {
    use super::{Find, find};

    #[test]
    fn the_first_tag_wins_and_beginnings_are_kept_back() {
        let tags = ["</a>", "\n</a>"];
        assert_eq!(find("x\n</a>", &tags, false), Find::At { at: 1, tag: 1 });
        assert_eq!(find("x</a>", &tags, false), Find::At { at: 1, tag: 0 });
        assert_eq!(find("x\n</", &tags, false), Find::Maybe(1));
        assert_eq!(find("x\n</", &tags, true), Find::No);
        assert_eq!(find("x</b> <", &tags, false), Find::Maybe(6));
        assert_eq!(find("é｜", &tags, false), Find::No);
    }
}
