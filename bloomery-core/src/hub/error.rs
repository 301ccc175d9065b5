//! What can go wrong with a download.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::units::Bytes;

/// Why a model of the hub is not there. No message has the token in it, or an address that was signed for it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The words do not name a model.
    #[error(
        "{text}: {why}; expected user/repo, user/repo:QUANT or user/repo/FILE.gguf, with @REVISION if need be"
    )]
    BadReference {
        /// The words.
        text: String,
        /// What is wrong with them.
        why: &'static str,
    },
    /// An option has a value that makes no sense.
    #[error("{option}: {why}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// What would be right.
        why: String,
    },
    /// Only the cache may be used, and it lacks something.
    #[error("offline: {what} is not in the cache {}", cache.display())]
    NotCached {
        /// What is missing.
        what: String,
        /// Where it was looked for.
        cache: PathBuf,
    },
    /// There is no such repository, or it is private.
    #[error("{repo}: there is no such repository at {endpoint}, or it is private{}", token_hint(*token))]
    NoSuchRepo {
        /// `user/repo`.
        repo: String,
        /// The hub.
        endpoint: String,
        /// Whether a token was sent.
        token: bool,
    },
    /// The repository lacks the branch, tag or commit.
    #[error("{repo}: there is no revision `{revision}`")]
    NoSuchRevision {
        /// `user/repo`.
        repo: String,
        /// The revision.
        revision: String,
    },
    /// The repository lacks the file.
    #[error("{repo}: there is no file `{file}`{}", listed("; its GGUF files", there))]
    NoSuchFile {
        /// `user/repo`.
        repo: String,
        /// The file.
        file: String,
        /// GGUF files of models that are there.
        there: Vec<String>,
    },
    /// The repository lacks the quantisation.
    #[error("{repo}: there is no model in {quant}{}", listed("; there are", there))]
    NoSuchQuant {
        /// `user/repo`.
        repo: String,
        /// What was asked for.
        quant: String,
        /// What is there.
        there: Vec<String>,
    },
    /// The repository has no GGUF file that is a model.
    #[error(
        "{repo}: no GGUF file of a model among its {files} files; a file can be named itself with -hff FILE"
    )]
    NoModel {
        /// `user/repo`.
        repo: String,
        /// Files that are there.
        files: usize,
    },
    /// Parts of a split model are missing.
    #[error("{file}: of its {parts} parts, these are not there: {}", missing.join(", "))]
    IncompleteSet {
        /// The first part that is there.
        file: String,
        /// Parts there should be.
        parts: usize,
        /// Names of those that are missing.
        missing: Vec<String>,
    },
    /// The hub wants to know who asks.
    #[error("{repo}: {why}{}", token_hint(*token))]
    Denied {
        /// `user/repo`.
        repo: String,
        /// What the hub says, or what the user can do.
        why: String,
        /// Whether a token was sent.
        token: bool,
    },
    /// Too many requests, and the hub wants a longer pause than is made by itself.
    #[error("{place}: too many requests; it asks for a pause of {} s", after.as_secs())]
    RateLimited {
        /// Who says so.
        place: String,
        /// The pause.
        after: Duration,
    },
    /// An answer that is neither yes nor one of the above.
    #[error("{place} answers {status}")]
    Status {
        /// Who was asked.
        place: String,
        /// The status of HTTP.
        status: u16,
    },
    /// No connection, or one that broke.
    #[error("{place}: {why}")]
    Network {
        /// Who was asked.
        place: String,
        /// What happened.
        why: String,
    },
    /// An answer that makes no sense.
    #[error("{place}: {why}")]
    BadReply {
        /// Who was asked.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// The repository lists a file whose name leaves its folder.
    #[error("{repo}: it lists a file with the name {name:?}, which is refused")]
    HostileName {
        /// `user/repo`.
        repo: String,
        /// The name.
        name: String,
    },
    /// What was downloaded is not what the hub says it is. It was thrown away.
    #[error("{file}: wrong hash: {found}, and the hub says {expected}; the download was thrown away")]
    WrongHash {
        /// The file.
        file: String,
        /// What the hub says.
        expected: String,
        /// What arrived.
        found: String,
    },
    /// The disk is full, or will be.
    #[error("{}: no room: {need} are missing{}", path.display(), free.map(|free| format!(", {free} are free")).unwrap_or_default())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// Bytes that still have to be written.
        need: Bytes,
        /// Bytes that are free, where that is known.
        free: Option<Bytes>,
    },
    /// The cache cannot be read or written.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was done.
        doing: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// It was cancelled. What has arrived is kept.
    #[error("the download was cancelled")]
    Cancelled,
}

impl HubError {
    /// Whether the hub could not be reached or was not able to answer, so that the same may work later.
    #[must_use]
    pub fn is_network(&self) -> bool {
        match self {
            Self::Network { .. } | Self::RateLimited { .. } | Self::BadReply { .. } => true,
            Self::Status { status, .. } => *status >= 500 || *status == 429,
            _ => false,
        }
    }

    /// Whether it is the fault of the cache's disk.
    #[must_use]
    pub fn is_disk(&self) -> bool {
        matches!(self, Self::DiskFull { .. } | Self::Io { .. })
    }

    pub(super) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}

fn token_hint(sent: bool) -> &'static str {
    if sent { " (the token was sent)" } else { " (no token was sent: set HF_TOKEN or --hf-token)" }
}

fn listed(what: &str, names: &[String]) -> String {
    const SHOWN: usize = 40;
    match names.len() {
        0 => String::new(),
        n if n > SHOWN => format!("{what} {}, …", names[..SHOWN].join(", ")),
        _ => format!("{what} {}", names.join(", ")),
    }
}
