//! What flags fill in, one after the other, before it is checked as a whole.

use std::path::PathBuf;

use bloomery_core::{KvType, Params};

use super::engine::EngineOptions;
use super::hub::HubOptions;
use super::placement::PlacementDraft;
use crate::logs::LogOptions;
use crate::options::{HttpOptions, ServeOptions};

/// Why the value of a flag cannot be taken.
#[derive(Debug)]
pub(super) enum Wrong {
    /// What would be right.
    Value(String),
    /// A file that cannot be read or used, and why.
    File(PathBuf, String),
    /// What is missing for it.
    Unsupported(String),
}

impl Wrong {
    pub(super) fn expected(what: &str) -> Self {
        Self::Value(format!("expected {what}"))
    }
}

/// Settings as far as they are known.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub(super) http: HttpOptions,
    pub(super) serve: ServeOptions,
    pub(super) engine: EngineOptions,
    pub(super) logs: LogOptions,
    pub(super) hub: HubOptions,
    /// The exact file of the repository.
    pub(super) hub_file: Option<String>,
    /// Filled in again once the model's own defaults are known.
    pub(super) params: Params,
    /// Jinja text.
    pub(super) template: Option<String>,
    pub(super) plan_only: bool,
    /// A word for the kind of model. The file says that too.
    pub(super) seat: Option<String>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) kv_k: Option<KvType>,
    pub(super) kv_v: Option<KvType>,
    pub(super) placement: PlacementDraft,
    /// The default sequence breakers have made way.
    pub(super) own_breakers: bool,
    pub(super) warnings: Vec<String>,
}
