//! What a model will need, before anything is paid for.

mod block;
mod builder;
mod cards;
mod choose;
mod experts;
mod fit;
mod host;
#[cfg(not(feature = "cuda"))]
mod no_card;
#[cfg(feature = "cuda")]
mod on_card;
mod placement;
mod predict;
mod rates;
#[cfg(any(feature = "cuda", test))]
mod slots;
mod split;
mod states;

pub use builder::{EngineBuilder, ModelSource};
pub(crate) use cards::Card;
pub use cards::{CardFacts, Cards};
pub use experts::{HostExperts, TensorRules};
pub use host::HostFacts;
pub use placement::{CardPick, Context, Placement};
pub use predict::Predicted;
pub use split::ResidencyMode;
#[cfg(any(feature = "cuda", test))]
pub(crate) use split::{LayerSplit, SlotPool};
pub(crate) use split::{Split, SplitOptions};
pub(crate) use states::StateSlots;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::{Isa, KvType, Numerics};

use crate::decide::HeadPlan;
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
    pub(crate) states: StateSlots,
    pub(crate) cache_ram: Bytes,
    pub(crate) sessions: usize,
    pub(crate) step_rows: usize,
    pub(crate) whole_prompts: bool,
    pub(crate) terms: Vec<Term>,
    pub(crate) available: Bytes,
    /// Of host memory, where the model is on a card.
    pub(crate) host_terms: Vec<Term>,
    pub(crate) host: HostFacts,
    /// Why the model is not on a card where one was possible.
    pub(crate) why: Option<String>,
    /// Why the model's block for the next tokens is left out, if it is.
    pub(crate) no_block: Option<String>,
    pub(crate) placement: Placement,
    pub(crate) card: Option<Card>,
    /// Of a model whose experts are on both sides: those of [`Placement::Split`], and no others.
    pub(crate) split: Option<Split>,
    pub(crate) split_options: SplitOptions,
    pub(crate) numerics: Numerics,
    pub(crate) isa: Isa,
    pub(crate) threads: NonZeroUsize,
    pub(crate) kv: KvType,
    /// Shared with a decision seat, which reads rows of it.
    pub(crate) gguf: Arc<Gguf>,
    /// Of a decision model.
    pub(crate) head: Option<HeadPlan>,
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

    /// The device of [`placement`](Self::placement), for people.
    #[must_use]
    pub fn device(&self) -> String {
        match (&self.card, self.placement) {
            (Some(card), Placement::Card(number)) => format!("CUDA{number} ({})", card.facts.name),
            (Some(card), Placement::Split(number)) => {
                let (name, isa, threads) = (&card.facts.name, self.isa, self.threads);
                format!("CUDA{number} ({name}) and the CPU ({isa:?}, {threads} threads)")
            }
            _ => format!("the CPU ({:?}, {} threads)", self.isa, self.threads),
        }
    }

    /// Why it is not all on a card, where that was to be as memory allows.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Why the model's own block for the next tokens is left out, if it has one and the device does not run it.
    #[must_use]
    pub fn no_block(&self) -> Option<&str> {
        self.no_block.as_deref()
    }

    /// What the plan takes of host memory. Of a model that is on a card as a whole the file's mapping is not part of that.
    #[must_use]
    pub fn host_need(&self) -> Bytes {
        let terms = if self.placement == Placement::Cpu { &self.terms } else { &self.host_terms };
        terms.iter().map(|term| term.bytes).sum()
    }

    /// What takes how much of host memory, where the model's device is a card.
    #[must_use]
    pub fn host_terms(&self) -> &[Term] {
        &self.host_terms
    }

    /// What takes how much memory of the model's device.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// What the model's device has left for [`terms`](Self::terms).
    #[must_use]
    pub fn available(&self) -> Bytes {
        self.available
    }

    /// Whether experts change sides while the engine runs, where they are on two.
    #[must_use]
    pub fn residency(&self) -> ResidencyMode {
        self.split_options.residency
    }

    /// The file of counts that outlives the engine.
    #[must_use]
    pub fn heat(&self) -> Option<&Path> {
        self.split_options.heat.as_deref()
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

    /// What caches and slots of experts have together, where experts are on two sides.
    #[cfg(feature = "cuda")]
    pub(crate) fn shared(&self) -> Bytes {
        let others = self.terms.iter().filter(|term| !["KV cache", "expert slots"].contains(&term.what));
        self.available.saturating_sub(others.map(|term| term.bytes).sum())
    }

    /// Bytes of weights that one token reads when it is alone in a step.
    #[must_use]
    pub fn bytes_per_token(&self) -> Bytes {
        self.program.bytes_per_token(&self.weights)
    }

    /// Brings the weights into the memory of their device and makes the engine. On the CPU they are used where they are
    /// mapped, not copied. `progress` is called now and then, the last time with `done == total`.
    pub fn load(self, progress: impl FnMut(Progress)) -> Result<Engine, LoadError> {
        Engine::load(self, progress)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: ", self.def.summary(), self.device())?;
        sum(f, &self.terms, self.available)?;
        if !self.host_terms.is_empty() {
            f.write_str("; in host memory ")?;
            sum(f, &self.host_terms, self.host.available)?;
        }
        if let Some(predicted) = self.predicted() {
            write!(f, "; {predicted}")?;
        }
        match (&self.why, self.placement) {
            (Some(why), Placement::Cpu) => write!(f, "; no card: {why}")?,
            (Some(why), _) => write!(f, "; not whole on the card: {why}")?,
            (None, _) => {}
        }
        match &self.no_block {
            Some(why) => write!(f, "; without the block for the next tokens: {why}"),
            None => Ok(()),
        }
    }
}

/// Terms, what they add up to, and what there is.
fn sum(f: &mut fmt::Formatter<'_>, terms: &[Term], available: Bytes) -> fmt::Result {
    for (index, term) in terms.iter().enumerate() {
        write!(f, "{}{term}", if index == 0 { "" } else { " + " })?;
    }
    let need: Bytes = terms.iter().map(|term| term.bytes).sum();
    write!(f, " = {need} of {available} available")
}
