//! Ends of a generation that depend on its lines.

use std::time::Duration;

/// Watches the text of one generation.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    /// A line that is indented less ends the generation; 0 is off.
    indent: usize,
    /// The first line break after this time does, too.
    limit: Option<Duration>,
    new_line: bool,
    /// Blanks at the beginning of a line that is nothing else yet. The first line began in the prompt.
    blanks: Option<usize>,
}

impl Lines {
    /// A watcher, where there is something to watch for.
    pub(super) fn new(indent: usize, limit: Option<Duration>) -> Option<Self> {
        (indent > 0 || limit.is_some()).then_some(Self { indent, limit, new_line: false, blanks: None })
    }

    /// Takes in more text, at a time after the first token. `Some` ends the generation with so many of the bytes.
    pub(super) fn push(&mut self, text: &str, time: Duration) -> Option<usize> {
        for (at, character) in text.char_indices() {
            match (character, self.blanks) {
                ('\n', _) => {
                    self.new_line = true;
                    self.blanks = Some(0);
                }
                (' ' | '\t', Some(blanks)) => self.blanks = Some(blanks + 1),
                (_, Some(blanks)) if blanks < self.indent => return Some(at),
                _ => self.blanks = None,
            }
        }
        let late = self.new_line && self.limit.is_some_and(|limit| time > limit);
        late.then_some(text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_indented_less_ends() {
        let mut lines = Lines::new(4, None).unwrap();
        let now = Duration::ZERO;
        assert_eq!(lines.push("x = 1\n", now), None);
        assert_eq!(lines.push("\n    y", now), None);
        assert_eq!(lines.push(" = 2\n  ", now), None);
        assert_eq!(lines.push("  z\n  w", now), Some(6));
    }

    #[test]
    fn time_ends_at_a_line_break() {
        let mut lines = Lines::new(0, Some(Duration::from_secs(1))).unwrap();
        assert_eq!(lines.push("a\nb", Duration::from_secs(1)), None);
        assert_eq!(lines.push("cd", Duration::from_secs(2)), Some(2));
        let mut lines = Lines::new(0, Some(Duration::from_secs(1))).unwrap();
        assert_eq!(lines.push("ab", Duration::from_secs(2)), None);
        assert_eq!(lines.push("c\n", Duration::from_secs(3)), Some(2));
        assert!(Lines::new(0, None).is_none());
    }
}
