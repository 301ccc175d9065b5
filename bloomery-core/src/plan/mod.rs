//! What a model will need, before anything is paid for.

mod builder;
mod fit;
mod host;
mod placement;

pub use builder::{EngineBuilder, ModelSource};
pub use host::HostFacts;
pub use placement::{Context, Placement};

use std::fmt;
use std::num::NonZeroUsize;

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::{Isa, KvType, Numerics};

use crate::def::ModelDef;
use crate::engine::Engine;
use crate::error::{LoadError, Term};
use crate::program::Program;
use crate::units::Bytes;
use crate::weights::Weights;

/// A model, read as far as its header, and the memory it will take. Prints as one line of terms.
#[derive(Debug)]
pub struct Plan {
    pub(crate) context: usize,
    /// Of all sessions together.
    pub(crate) pages: usize,
    pub(crate) cache_ram: Bytes,
    pub(crate) sessions: usize,
    pub(crate) step_rows: usize,
    pub(crate) terms: Vec<Term>,
    pub(crate) available: Bytes,
    pub(crate) placement: Placement,
    pub(crate) numerics: Numerics,
    pub(crate) isa: Isa,
    pub(crate) threads: NonZeroUsize,
    pub(crate) kv: KvType,
    pub(crate) gguf: Gguf,
    pub(crate) def: ModelDef,
    pub(crate) program: Program,
    pub(crate) weights: Weights,
}

/// How far loading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the file that are in memory.
    pub done: Bytes,
    /// Bytes of the file.
    pub total: Bytes,
}

impl Plan {
    /// Where everything will live: what [`Placement::Auto`] came to.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Positions of every session.
    #[must_use]
    pub fn context(&self) -> usize {
        self.context
    }

    /// What takes how much memory.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The model's definition.
    #[must_use]
    pub fn model(&self) -> &ModelDef {
        &self.def
    }

    /// CPU threads of the engine.
    #[must_use]
    pub fn threads(&self) -> NonZeroUsize {
        self.threads
    }

    /// Bytes of weights that one token reads when it is alone in a step.
    #[must_use]
    pub fn bytes_per_token(&self) -> Bytes {
        self.program.bytes_per_token(&self.weights)
    }

    /// Brings the file into memory and makes the engine. Weights are used where they are mapped, not copied.
    /// `progress` is called now and then, the last time with `done == total`.
    pub fn load(self, progress: impl FnMut(Progress)) -> Result<Engine, LoadError> {
        Engine::load(self, progress)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let need: Bytes = self.terms.iter().map(|term| term.bytes).sum();
        write!(f, "{} on the CPU ({:?}, {} threads): ", self.def.summary(), self.isa, self.threads)?;
        for (index, term) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if index == 0 { "" } else { " + " })?;
        }
        write!(f, " = {need} of {} available", self.available)
    }
}
