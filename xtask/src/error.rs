//! Why a task was not done.

use std::fmt;
use std::io::{self, Write};

/// Why a task was not done, for people.
#[derive(Debug)]
pub(crate) enum Error {
    /// The command line makes no sense.
    Usage(String),
    /// What could not be read, written or started.
    Io(String, io::Error),
    /// Something is wrong with the tree or a tool; the text says what.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) => f.write_str(text),
            Self::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

/// For `map_err`.
pub(crate) fn io_error(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Error {
    let what = what.to_string();
    move |error| Error::Io(what, error)
}

/// Writes a line to standard output.
pub(crate) fn say(out: &mut dyn Write, line: fmt::Arguments<'_>) -> Result<(), Error> {
    writeln!(out, "{line}").map_err(io_error("standard output"))
}
