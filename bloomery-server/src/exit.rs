//! How the program ends when it does not end well.

use std::fmt;

use bloomery_core::hub::HubError;
use bloomery_core::{EngineError, LoadError, PlanError};

use crate::args::ArgError;
use crate::http::BindError;

/// Exit codes, with the numbers of sysexits.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// A second signal: no time for order.
    AtOnce = 1,
    /// The command line makes no sense.
    Usage = 64,
    /// The model or another file is missing, unreadable, broken or of an unsupported kind.
    NoInput = 66,
    /// The model does not fit this machine, the address cannot be had, or the hub does not answer.
    Unavailable = 69,
    /// The engine failed.
    Software = 70,
    /// The log or the cache of downloads cannot be written.
    Io = 74,
}

/// Why the program ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub status: Status,
    /// What to say.
    pub message: String,
}

impl Failure {
    /// A failure with this code and message.
    pub fn new(status: Status, message: impl fmt::Display) -> Self {
        Self { status, message: message.to_string() }
    }

    /// The same failure, whose message names `subject` unless it does already.
    #[must_use]
    pub fn about(self, subject: &str) -> Self {
        if self.message.contains(subject) {
            return self;
        }
        Self { message: format!("{subject}: {}", self.message), ..self }
    }
}

impl From<ArgError> for Failure {
    fn from(error: ArgError) -> Self {
        let status = match &error {
            ArgError::File { .. } => Status::NoInput,
            _ => Status::Usage,
        };
        Self::new(status, error)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::new(Status::NoInput, error)
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
        let status = match &error {
            PlanError::Load(_) => Status::NoInput,
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
        Self::new(Status::Software, error)
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        let status = match &error {
            BindError::NoHost => Status::Usage,
            BindError::Tls(_) => Status::NoInput,
            _ => Status::Unavailable,
        };
        Self::new(status, error)
    }
}
