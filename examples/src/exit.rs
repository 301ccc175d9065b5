//! How the programs end: an exit code of sysexits.h and one line on stderr.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use bloomery_core::hub::HubError;
use bloomery_core::{EngineError, Error, LoadError, PlanError};
use clap::Parser;

use crate::args::{Alias, expand};

/// Exit codes, with the numbers and names of sysexits.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Stopped without an error although not all was said: the reader of stdout went away.
    Quiet = 0,
    /// Something was measured and is not good enough.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 64,
    /// Input other than the model makes no sense: ids, texts, a prompt longer than the context.
    Data = 65,
    /// The model or another input file is missing, unreadable, broken or of an unsupported kind.
    NoInput = 66,
    /// The model does not fit this machine, or the hub does not answer.
    Unavailable = 69,
    /// The engine failed.
    Software = 70,
    /// An output cannot be written.
    Io = 74,
    /// Ctrl-C (128 + SIGINT).
    Interrupted = 130,
}

/// Why a program ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub status: Status,
    /// One line, without the program's name. Empty for [`Status::Quiet`].
    pub message: String,
}

impl Failure {
    /// A failure with this code and message.
    pub fn new(status: Status, message: impl fmt::Display) -> Self {
        Self { status, message: message.to_string() }
    }

    /// The same failure, whose message names `subject` unless it does already.
    #[must_use]
    pub fn about(self, subject: impl fmt::Display) -> Self {
        let subject = subject.to_string();
        if self.message.contains(&subject) {
            return self;
        }
        Self { message: format!("{subject}: {}", self.message), ..self }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Hub(error) => error.into(),
            error => Self::new(Status::NoInput, error),
        }
    }
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        let status = match &error {
            HubError::BadOption { .. } | HubError::BadReference { .. } => Status::Usage,
            error if error.is_disk() => Status::Io,
            error if error.is_network() => Status::Unavailable,
            _ => Status::NoInput,
        };
        Self::new(status, error)
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        let error = match error {
            PlanError::Load(error) => return error.into(),
            error => error,
        };
        let status = match &error {
            PlanError::DoesNotFit { .. }
            | PlanError::NoCard { .. }
            | PlanError::NotOnCard { .. }
            | PlanError::SeveralCards { .. } => Status::Unavailable,
            PlanError::Invalid { .. } => Status::Usage,
            _ => Status::Software,
        };
        Self::new(status, error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let status = match &error {
            EngineError::Sampling(_) => Status::Usage,
            EngineError::ContextFull { .. }
            | EngineError::UnknownToken { .. }
            | EngineError::NoTokens { .. }
            | EngineError::Template(_)
            | EngineError::Tokenizer(_) => Status::Data,
            _ => Status::Software,
        };
        Self::new(status, error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Plan(error) => error.into(),
            Error::Load(error) => error.into(),
            Error::Engine(error) => error.into(),
            other => Self::new(Status::Software, other),
        }
    }
}

impl From<io::Error> for Failure {
    /// An error while writing to stdout. Reading errors are better turned into [`Status::NoInput`] where they occur.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Status::Quiet, ""),
            _ => Self::new(Status::Io, format!("writing output: {error}")),
        }
    }
}

/// Parses the command line, runs `body` and turns its failure into an exit code and a line on stderr.
///
/// `aliases` are the flags of one dash and several letters that llama.cpp's users type; see [`expand`].
pub fn run<A: Parser>(aliases: &[Alias], body: impl FnOnce(A) -> Result<(), Failure>) -> ExitCode {
    let command = A::command();
    let program = command.get_name().to_owned();
    let words: Vec<OsString> = expand(std::env::args_os(), &command, aliases);
    let parsed = match A::try_parse_from(words) {
        Ok(parsed) => parsed,
        Err(error) if !error.use_stderr() => {
            // --help and --version; a reader that went away is no concern of theirs.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return report(&program, &Failure::new(Status::Usage, summary(&error))),
    };
    match body(parsed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&program, &failure),
    }
}

fn report(program: &str, failure: &Failure) -> ExitCode {
    if failure.status != Status::Quiet {
        let line = failure.message.split_whitespace().collect::<Vec<_>>().join(" ");
        // Nobody is left to tell if stderr is closed.
        let _ = writeln!(io::stderr(), "{program}: error: {line}");
    }
    ExitCode::from(failure.status as u8)
}

/// What clap has to say, up to its hints and usage.
fn summary(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_name_their_subject_once() {
        let plain = Failure::new(Status::NoInput, "not a GGUF file");
        assert_eq!(plain.clone().about("a.gguf").message, "a.gguf: not a GGUF file");
        assert_eq!(plain.about("a.gguf").about("a.gguf").message, "a.gguf: not a GGUF file");
    }

    #[test]
    fn a_reader_that_went_away_is_no_error() {
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).status, Status::Quiet);
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::StorageFull)).status, Status::Io);
    }

    #[test]
    fn errors_of_the_engine_have_their_codes() {
        let full = EngineError::ContextFull { len: 0, adding: 9, context: 8 };
        assert_eq!(Failure::from(full).status, Status::Data);
        assert_eq!(Failure::from(EngineError::Poisoned).status, Status::Software);
        let invalid =
            PlanError::Invalid { option: "context", value: "0".into(), why: "must be positive".into() };
        assert_eq!(Failure::from(Error::Plan(invalid)).status, Status::Usage);
    }
}
