//! Messages from a terminal or a pipe.

use std::io::{self, Write};

use bloomery_examples::{Failure, Status};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A message.
    Message(String),
    /// The end of the input.
    End,
}

/// A line editor on a terminal, plain lines otherwise.
pub(crate) enum Input {
    /// With history and editing.
    Terminal(Box<DefaultEditor>),
    /// A message a line, no prompt.
    Pipe,
}

impl Input {
    /// Input from stdin.
    pub(crate) fn new(terminal: bool) -> Result<Self, Failure> {
        if !terminal {
            return Ok(Self::Pipe);
        }
        Ok(Self::Terminal(Box::new(DefaultEditor::new().map_err(unreadable)?)))
    }

    /// The next message. Ctrl-D ends, and so does Ctrl-C the second time in a row.
    pub(crate) fn next(&mut self) -> Result<Line, Failure> {
        match self {
            Self::Pipe => piped(&mut io::stdin().lock()),
            Self::Terminal(editor) => edited(editor),
        }
    }
}

fn edited(editor: &mut DefaultEditor) -> Result<Line, Failure> {
    let mut interrupted = false;
    loop {
        match editor.readline("> ") {
            Ok(line) => {
                if !line.trim().is_empty() {
                    // The history is a convenience; a line it refuses is still a message.
                    let _ = editor.add_history_entry(&line);
                }
                return Ok(Line::Message(line));
            }
            Err(ReadlineError::Eof) => return Ok(Line::End),
            Err(ReadlineError::Interrupted) if interrupted => return Ok(Line::End),
            Err(ReadlineError::Interrupted) => {
                interrupted = true;
                let _ = writeln!(io::stderr(), "Ctrl-C once more leaves");
            }
            Err(error) => return Err(unreadable(error)),
        }
    }
}

/// One line without its end. Bytes that are no UTF-8 are an error, not replaced: the model would read other words.
fn piped(input: &mut impl io::BufRead) -> Result<Line, Failure> {
    let mut line = String::new();
    match input.read_line(&mut line).map_err(unreadable)? {
        0 => Ok(Line::End),
        _ => {
            let end = line.trim_end_matches(['\n', '\r']).len();
            line.truncate(end);
            Ok(Line::Message(line))
        }
    }
}

fn unreadable(error: impl std::fmt::Display) -> Failure {
    Failure::new(Status::NoInput, format!("reading stdin: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_lines_lose_their_ends_only() {
        let mut input = "  a b \r\n\nlast".as_bytes();
        let mut next = || piped(&mut input).unwrap();
        assert_eq!(next(), Line::Message("  a b ".into()));
        assert_eq!(next(), Line::Message(String::new()));
        assert_eq!(next(), Line::Message("last".into()));
        assert_eq!(next(), Line::End);
        assert!(piped(&mut &b"\xff\n"[..]).is_err());
    }
}
