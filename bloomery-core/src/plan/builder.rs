//! Options of an engine, and the step from options to a plan.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::{Isa, KvType, Numerics};

use super::block;
use super::choose::Question;
use super::{Cards, Context, HostExperts, HostFacts, Placement, Plan, ResidencyMode, SplitOptions};
use crate::arch;
use crate::decide::{HeadFiles, HeadPlan, LONGEST};
use crate::error::{LoadError, PlanError};
#[cfg(feature = "hub")]
use crate::hub::{Hub, HubError, Reference};
use crate::layers;
use crate::units::Bytes;

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelSource {
    /// A GGUF file; of a split file, any part.
    File(PathBuf),
    /// A model of the Hugging Face hub, which [`EngineBuilder::plan`] downloads if the cache lacks it.
    #[cfg(feature = "hub")]
    Hub(Reference),
    /// Text that begins like a model of the hub, and names none. [`EngineBuilder::plan`] says why.
    #[cfg(feature = "hub")]
    Misnamed(String),
    /// The demo model inside this library.
    #[cfg(feature = "demo")]
    Demo,
}

impl ModelSource {
    /// The small story teller inside this library, for trying things without a download.
    #[cfg(feature = "demo")]
    #[must_use]
    pub fn demo() -> Self {
        Self::Demo
    }

    /// A model of the Hugging Face hub: `USER/REPO[:QUANT][@REVISION]`, see [`Reference`].
    ///
    /// ```
    /// use bloomery_core::ModelSource;
    ///
    /// assert_eq!(ModelSource::hub("Qwen/Qwen3-4B-GGUF:Q4_K_M")?, "hf:Qwen/Qwen3-4B-GGUF:Q4_K_M".into());
    /// # Ok::<(), bloomery_core::hub::HubError>(())
    /// ```
    ///
    /// # Errors
    /// [`HubError::BadReference`].
    #[cfg(feature = "hub")]
    pub fn hub(reference: &str) -> Result<Self, HubError> {
        reference.parse().map(Self::Hub)
    }

    fn open(&self, builder: &EngineBuilder) -> Result<Gguf, LoadError> {
        #[cfg(not(feature = "hub"))]
        let _ = builder;
        Ok(match self {
            Self::File(path) => Gguf::open(path)?,
            #[cfg(feature = "hub")]
            Self::Hub(reference) => {
                let path = match &builder.hub {
                    Some(hub) => hub.model(reference),
                    None => Hub::new().model(reference),
                };
                Gguf::open(&path?)?
            }
            #[cfg(feature = "hub")]
            Self::Misnamed(text) => return Err(wrong_reference(text).into()),
            #[cfg(feature = "demo")]
            Self::Demo => Gguf::from_static(crate::demo::bytes())?,
        })
    }
}

/// What is wrong with a name that was not understood before.
#[cfg(feature = "hub")]
fn wrong_reference(text: &str) -> HubError {
    match text.parse::<Reference>() {
        Err(error) => error,
        Ok(_) => HubError::BadReference { text: text.to_owned(), why: "it names a model after all" },
    }
}

impl From<&str> for ModelSource {
    /// `hf:user/repo:QUANT` is a model of the Hugging Face hub, see [`Reference`](crate::hub::Reference); anything else
    /// is a file.
    fn from(text: &str) -> Self {
        #[cfg(feature = "hub")]
        if text.starts_with("hf:") {
            return text.parse().map_or_else(|_| Self::Misnamed(text.to_owned()), Self::Hub);
        }
        Self::File(text.into())
    }
}

impl From<&Path> for ModelSource {
    fn from(path: &Path) -> Self {
        Self::File(path.into())
    }
}

impl From<PathBuf> for ModelSource {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

/// Shortest context that a plan chooses where the caller does not say.
const CONTEXT_FLOOR: usize = 4096;

/// Options of an engine. Nothing is read before [`plan`](Self::plan).
#[derive(Debug, Clone)]
#[must_use]
pub struct EngineBuilder {
    source: ModelSource,
    head: Option<HeadFiles>,
    block: Option<PathBuf>,
    placement: Placement,
    context: Context,
    context_floor: usize,
    sessions: usize,
    pool: Option<usize>,
    cache_ram: Bytes,
    checkpoints: Option<usize>,
    step_rows: Option<usize>,
    whole_prompts: bool,
    threads: Option<NonZeroUsize>,
    numerics: Numerics,
    kv: Option<KvType>,
    isa: Isa,
    host: Option<HostFacts>,
    cards: Option<Cards>,
    split: SplitOptions,
    #[cfg(feature = "hub")]
    hub: Option<Hub>,
}

impl EngineBuilder {
    pub(crate) fn new(source: ModelSource) -> Self {
        Self {
            source,
            head: None,
            block: None,
            placement: Placement::Auto,
            context: Context::Auto,
            context_floor: CONTEXT_FLOOR,
            sessions: 1,
            pool: None,
            cache_ram: Bytes(0),
            checkpoints: None,
            step_rows: None,
            whole_prompts: false,
            threads: None,
            numerics: Numerics::Fast,
            kv: None,
            isa: Isa::detect(),
            host: None,
            cards: None,
            split: SplitOptions::default(),
            #[cfg(feature = "hub")]
            hub: None,
        }
    }

    /// Where and how a model of the hub is downloaded. Default: [`Hub::new`].
    #[cfg(feature = "hub")]
    pub fn hub(self, hub: Hub) -> Self {
        Self { hub: Some(hub), ..self }
    }

    /// Makes a model of architecture `qwen35` a decision model: `weights` is a `joint_head.safetensors`, and beside it is
    /// `joint_head_config.json` ([`head_config`](Self::head_config) may name another). Files of architecture `clef` have
    /// their head in them. See [`decide`](crate::decide).
    pub fn head(self, weights: impl Into<PathBuf>) -> Self {
        let config = self.head.and_then(|head| head.config);
        Self { head: Some(HeadFiles { weights: weights.into(), config }), ..self }
    }

    /// The configuration of the [`head`](Self::head), which has to be named before.
    pub fn head_config(mut self, config: impl Into<PathBuf>) -> Self {
        if let Some(head) = &mut self.head {
            head.config = Some(config.into());
        }
        self
    }

    /// The model's block for the next tokens where that is a file of its own, as Qwen3.8's is. It guesses as one in the model's
    /// file would: see [`Drafts`](crate::Drafts).
    pub fn block(self, file: impl Into<PathBuf>) -> Self {
        Self { block: Some(file.into()), ..self }
    }

    /// Where weights and caches may live.
    pub fn placement(self, placement: Placement) -> Self {
        Self { placement, ..self }
    }

    /// Positions of every session.
    pub fn context(self, context: Context) -> Self {
        Self { context, ..self }
    }

    /// Shortest context that [`Context::Auto`] settles for; a model with less memory is refused. Default 4096.
    pub fn context_floor(self, context_floor: usize) -> Self {
        Self { context_floor, ..self }
    }

    /// Sessions that can exist at a time, forks included. Default 1.
    pub fn sessions(self, sessions: usize) -> Self {
        Self { sessions, ..self }
    }

    /// Positions of all sessions together, at least those of one. Default: [`context`](Self::context) times
    /// [`sessions`](Self::sessions). With fewer, sessions share memory, and a step they have no room for is
    /// [`PoolExhausted`](crate::EngineError::PoolExhausted). With more, more prefixes are kept for
    /// [`Session::adopt`](crate::Session::adopt).
    pub fn pool(self, tokens: usize) -> Self {
        Self { pool: Some(tokens), ..self }
    }

    /// Host memory for prefixes that had to leave the pool. Default none: they are forgotten.
    pub fn cache_ram(self, cache_ram: Bytes) -> Self {
        Self { cache_ram, ..self }
    }

    /// States of its past that each session can come back to in models with recurrent layers: where a text changes, it is run
    /// again from the last of them. Other models have no use for them. Default 8, and fewer where they would take more than a
    /// 16th of what weights leave; those that have to go move to [`cache_ram`](Self::cache_ram).
    pub fn checkpoints(self, checkpoints: usize) -> Self {
        Self { checkpoints: Some(checkpoints), ..self }
    }

    /// Most rows of one step (llama.cpp's ubatch). Default 512; on a card 2048 where that takes little of its memory, and
    /// of a split model 4096.
    pub fn step_rows(self, step_rows: usize) -> Self {
        Self { step_rows: Some(step_rows), ..self }
    }

    /// Runs every token of a prompt through all layers. Default: in models whose last layers see the far past by rows that an earlier
    /// one makes (DeepSeek-V4.1), most tokens of a long prompt stop at that one. Results are the same; this is for comparisons.
    pub fn whole_prompts(self, whole_prompts: bool) -> Self {
        Self { whole_prompts, ..self }
    }

    /// CPU threads. Default: the physical cores this process may use.
    pub fn threads(self, threads: NonZeroUsize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// How activations are rounded. [`Numerics::Exact`] also keeps keys and values in f32 unless
    /// [`kv`](Self::kv) says otherwise.
    pub fn numerics(self, numerics: Numerics) -> Self {
        Self { numerics, ..self }
    }

    /// Element type of the key/value cache. Default f16.
    pub fn kv(self, kv: KvType) -> Self {
        Self { kv: Some(kv), ..self }
    }

    /// Instruction set of the CPU kernels; results do not depend on it. Default: the fastest there is.
    pub fn isa(self, isa: Isa) -> Self {
        Self { isa, ..self }
    }

    /// Most memory of a card that the engine may use, whatever is free. Default: what nobody uses.
    pub fn card_budget(mut self, budget: Bytes) -> Self {
        self.split.card_budget = Some(budget);
        self
    }

    /// Memory of a card that stays free. Default: a hundredth of it, at least 256 MiB.
    pub fn card_margin(mut self, margin: Bytes) -> Self {
        self.split.card_margin = Some(margin);
        self
    }

    /// Layers whose experts stay in host memory. Default: those that the card has no room for.
    pub fn host_experts(mut self, experts: HostExperts) -> Self {
        self.split.host_experts = experts;
        self
    }

    /// Whether experts move between card and host while the engine runs. Default: they do.
    pub fn residency(mut self, mode: ResidencyMode) -> Self {
        self.split.residency = mode;
        self
    }

    /// Most rows of a step whose missing experts the host computes: with more, they come to the card. Default: where that
    /// begins to be faster, measured when the model is loaded, so that two engines may round the same text differently.
    pub fn served_rows(mut self, rows: usize) -> Self {
        self.split.served_rows = Some(rows);
        self
    }

    /// A file in which counts of chosen experts outlive the engine: read when it is loaded, if it is there, and written when it
    /// ends. Default: none.
    pub fn heat(mut self, path: impl Into<PathBuf>) -> Self {
        self.split.heat = Some(path.into());
        self
    }

    /// Plans for another machine than this one, or for a part of it.
    pub fn host(self, host: HostFacts) -> Self {
        Self { host: Some(host), ..self }
    }

    /// Plans for other cards than this machine's, or for cards that were looked at already.
    pub fn cards(self, cards: Cards) -> Self {
        Self { cards: Some(cards), ..self }
    }

    /// Reads the header of the file and works out what the engine will need. Weights stay unread.
    pub fn plan(self) -> Result<Plan, PlanError> {
        let positive = |option, value: usize| match value {
            0 => {
                Err(PlanError::Invalid { option, value: "0".to_owned(), why: "must be positive".to_owned() })
            }
            _ => Ok(()),
        };
        positive("sessions", self.sessions)?;
        if let Some(n) = self.step_rows {
            positive("step_rows", n)?;
        }
        if let Context::Tokens(n) = self.context {
            positive("context", n)?;
        }
        if let Some(n) = self.pool {
            positive("pool", n)?;
        }
        let mut gguf = self.source.open(&self)?;
        if let Some(file) = &self.block {
            gguf = block::join(gguf, file)?;
        }
        let mut def = arch::define(gguf.metadata())?;
        let head = HeadPlan::find(&gguf, def.hidden, self.head.as_ref())?;
        if head.is_some() {
            // Longer prompts are not asked for, so that no memory is kept for them.
            def.context = def.context.min(LONGEST);
        }
        let (program, weights) = layers::compile(&def, &gguf)?;
        let host = self.host.unwrap_or_else(HostFacts::read);
        let kv = self.kv.unwrap_or(match self.numerics {
            Numerics::Fast => KvType::F16,
            Numerics::Exact => KvType::F32,
        });
        let page_bytes = program.page_bytes(kv).map_err(|error| PlanError::Invalid {
            option: "kv",
            value: format!("{kv:?}"),
            why: error.to_string(),
        })?;
        let trunk = program.draft.is_some().then(|| program.trunk());
        let question = Question {
            gguf: &gguf,
            def: &def,
            program: &program,
            trunk: trunk.as_ref(),
            weights: &weights,
            head: head.as_ref(),
            context: self.context,
            floor: self.context_floor.max(1),
            sessions: self.sessions,
            pool: self.pool,
            cache_ram: self.cache_ram,
            step_rows: self.step_rows,
            numerics: self.numerics,
            kv,
            page_bytes,
            state_bytes: program.state_bytes(),
            checkpoints: self.checkpoints,
            host,
            options: &self.split,
        };
        let cards = match (self.placement, self.cards) {
            (Placement::Cpu, _) => Cards::none("the CPU was asked for"),
            (_, Some(cards)) => cards,
            (_, None) => Cards::read(),
        };
        let choice = question.choose(self.placement, &cards)?;
        let program = match (&choice.no_block, trunk) {
            (Some(_), Some(trunk)) => trunk,
            _ => program,
        };
        let threads = self.threads.unwrap_or(host.cores);
        Ok(Plan {
            context: choice.fit.context,
            pages: choice.fit.pages,
            states: choice.states,
            cache_ram: self.cache_ram,
            terms: choice.fit.terms,
            available: choice.available,
            host_terms: choice.host_terms,
            host,
            why: choice.why,
            no_block: choice.no_block,
            sessions: self.sessions,
            step_rows: choice.step_rows,
            whole_prompts: self.whole_prompts,
            placement: choice.placement,
            card: choice.card,
            split: choice.split,
            split_options: self.split,
            numerics: self.numerics,
            isa: self.isa,
            threads,
            kv,
            gguf: Arc::new(gguf),
            head,
            def,
            program,
            weights,
        })
    }
}
