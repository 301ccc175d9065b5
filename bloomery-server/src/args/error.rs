//! What is wrong with a command line.

use std::path::PathBuf;

/// Why the words make no sense. `flag` is what was typed: a flag, or a variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgError {
    /// There is no such flag.
    #[error("invalid argument: {flag}{}", near.as_ref().map(|near| format!("\ndid you mean {near}?")).unwrap_or_default())]
    Unknown {
        /// What was typed.
        flag: String,
        /// What may have been meant.
        near: Option<&'static str>,
    },
    /// The value is missing.
    #[error("{flag}: expected a value ({meta})")]
    Missing {
        /// What was typed.
        flag: String,
        /// The name of the value in the help.
        meta: String,
    },
    /// The value is wrong.
    #[error("{flag} {value}: {why}")]
    Value {
        /// What was typed.
        flag: String,
        /// The value.
        value: String,
        /// What would be right.
        why: String,
    },
    /// A file that is named cannot be read or used.
    #[error("{flag} {}: {why}", path.display())]
    File {
        /// What was typed.
        flag: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A feature that is not there, and without which the server would not be what was asked for.
    #[error("{flag}: {why}")]
    Refused {
        /// What was typed.
        flag: String,
        /// Why not.
        why: String,
    },
    /// Flags that do not go together.
    #[error("{0}")]
    Conflict(String),
}
