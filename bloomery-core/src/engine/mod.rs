//! A loaded model and the steps it runs.

mod constrain;
mod facts;
mod guess;
mod readout;
mod rebalance;
mod recur;
mod shallow;
mod step;
#[cfg(test)]
mod tests;

pub use facts::Facts;
pub(crate) use guess::Guess;
pub(crate) use readout::Readout;
pub use rebalance::Rebalanced;
pub use step::{Logits, Turn};

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bloomery_gguf::Gguf;

#[cfg(feature = "cuda")]
use crate::backend::CudaBackend;
use crate::backend::{Backend, CpuBackend, GraphFacts};
use crate::chat::ChatTemplate;
use crate::constrain::{Compiler, GrammarError};
use crate::decide::Seat;
use crate::def::ModelDef;
use crate::draft::Price;
use crate::error::{EngineError, LoadError, Term};
use crate::generate::Params;
use crate::plan::{EngineBuilder, ModelSource, Placement, Plan, Progress};
use crate::prefix::{PrefixCache, PrefixStats};
use crate::program::Narrow;
use crate::residency::Traffic;
use crate::session::Session;
use crate::state::StatePool;
use crate::tokenizer::Tokenizer;
use crate::units::Bytes;

/// A loaded model. Cloning is cheap and gives the same engine; all methods may be called from any thread.
///
/// ```
/// use bloomery_core::{Engine, ModelSource, Params};
///
/// let engine = Engine::builder(ModelSource::demo()).plan()?.load(|_| {})?;
/// let mut session = engine.session()?;
/// let params = Params { max_tokens: Some(4), ..Params::greedy() };
/// let text: String = session.generate("Once upon a time", &params)?.map(|piece| Ok(piece?.text)).collect::<Result<_, bloomery_core::EngineError>>()?;
/// assert!(!text.is_empty());
/// # Ok::<(), bloomery_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

/// What all clones of an engine share. Who needs both locks takes `backend` before `cache`.
pub(crate) struct Inner {
    model: ModelDef,
    fingerprint: u64,
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    defaults: Params,
    facts: Facts,
    context: usize,
    max_sessions: usize,
    step_rows: usize,
    terms: Vec<Term>,
    host_terms: Vec<Term>,
    placement: Placement,
    device: String,
    bytes_per_token: Bytes,
    open_sessions: AtomicUsize,
    has_block: bool,
    /// Where rows of prompts may stop, and whether they do.
    narrow: Option<Narrow>,
    skips: bool,
    cache: Mutex<PrefixCache>,
    backend: Mutex<Box<dyn Backend>>,
    /// What steps take; held for moments only, and never while another lock is waited for.
    price: Mutex<Price>,
    /// Of a decision model.
    pub(crate) seat: Option<Arc<Seat>>,
    /// Made when the first constraint is asked for: a vocabulary of 150 000 takes half a second.
    compiler: OnceLock<Result<Compiler, GrammarError>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("model", &self.model.summary()).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts from a file path or [`ModelSource::demo`].
    pub fn builder(source: impl Into<ModelSource>) -> EngineBuilder {
        EngineBuilder::new(source.into())
    }

    pub(crate) fn load(plan: Plan, progress: impl FnMut(Progress)) -> Result<Self, LoadError> {
        let meta = plan.gguf.metadata();
        let tokenizer = Tokenizer::from_metadata(meta)?;
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.piece(id)).unwrap_or_default();
        let template = ChatTemplate::from_metadata(meta, text(tokenizer.bos()), text(tokenizer.eos()))?;
        let defaults = Params::from_metadata(meta)?;
        let facts = Facts::of(&plan.gguf)?;
        let states =
            StatePool::new(u32::try_from(plan.states.slots).unwrap_or(u32::MAX), plan.states.reserve);
        let cache = PrefixCache::new(u32::try_from(plan.pages).unwrap_or(u32::MAX), states, plan.cache_ram);
        let bytes_per_token = plan.bytes_per_token();
        let fingerprint = fingerprint(&plan);
        let (model, context, terms) = (plan.def.clone(), plan.context, plan.terms.clone());
        let host_terms = plan.host_terms.clone();
        let (max_sessions, step_rows) = (plan.sessions, plan.step_rows);
        let (placement, device) = (plan.placement, plan.device());
        let (narrow, skips) = (Narrow::of(&plan.program), !plan.whole_prompts);
        let seat = match &plan.head {
            Some(head) => Some(Arc::new(Seat::load(head, &plan.gguf, plan.threads, plan.isa)?)),
            None => None,
        };
        // The first step of a shape loads kernels on a card, the second captures a graph.
        let warming = if placement == Placement::Cpu { 0 } else { 2 };
        let backend = backend(plan, fingerprint, cache.pool.capacity(), progress)?;
        Ok(Self {
            inner: Arc::new(Inner {
                model,
                fingerprint,
                tokenizer,
                template,
                defaults,
                facts,
                context,
                max_sessions,
                step_rows,
                terms,
                host_terms,
                placement,
                device,
                bytes_per_token,
                open_sessions: AtomicUsize::new(0),
                has_block: backend.has_block(),
                narrow,
                skips,
                cache: Mutex::new(cache),
                backend: Mutex::new(backend),
                price: Mutex::new(Price::new(warming)),
                seat,
                compiler: OnceLock::new(),
            }),
        })
    }

    /// A new, empty session. There can be as many as were planned for.
    pub fn session(&self) -> Result<Session, EngineError> {
        Session::new(self)
    }

    /// Text to ids and back.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.inner.tokenizer
    }

    /// The file's chat template, if it has one.
    #[must_use]
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.inner.template.as_ref()
    }

    /// What the model is.
    #[must_use]
    pub fn model(&self) -> &ModelDef {
        &self.inner.model
    }

    /// What the file says of the model besides.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.inner.facts
    }

    /// Positions of every session.
    #[must_use]
    pub fn context(&self) -> usize {
        self.inner.context
    }

    /// Sessions that may be open at the same time.
    #[must_use]
    pub fn max_sessions(&self) -> usize {
        self.inner.max_sessions
    }

    /// Most rows of one step.
    #[must_use]
    pub fn step_rows(&self) -> usize {
        self.inner.step_rows
    }

    /// What takes how much memory, as it was planned: [`rebalance`](Self::rebalance) moves some of it.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.inner.terms
    }

    /// What takes how much of host memory, where the model's device is a card.
    #[must_use]
    pub fn host_terms(&self) -> &[Term] {
        &self.inner.host_terms
    }

    /// Where weights and caches are. Of [`Placement::Split`] it says which card; how many experts that card has, and what
    /// running on two sides has come to, is [`traffic`](Self::traffic).
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.inner.placement
    }

    /// The device of [`placement`](Self::placement), for people.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.inner.device
    }

    /// Steps that run as captured graphs on a card, as far as any have been needed.
    ///
    /// # Errors
    /// [`EngineError::Poisoned`].
    pub fn graphs(&self) -> Result<Vec<GraphFacts>, EngineError> {
        Ok(self.inner.backend()?.graphs())
    }

    /// Experts that are partly on the card and partly with the host, and what has travelled; none where all are on one
    /// side, which [`placement`](Self::placement) tells. Waits for a step under way:
    /// [`Status::traffic`](crate::scheduler::Status::traffic) is the same after the last step of a scheduler, without waiting.
    ///
    /// # Errors
    /// [`EngineError::Poisoned`].
    pub fn traffic(&self) -> Result<Option<Traffic>, EngineError> {
        Ok(self.inner.backend()?.traffic())
    }

    /// What the engine remembers beyond its sessions; see [`Session::adopt`].
    #[must_use]
    pub fn prefix_stats(&self) -> PrefixStats {
        self.inner.cache().stats()
    }

    /// Forgets what is remembered of `tokens` for other sessions to adopt, as far as no longer and no other sequence
    /// that begins alike needs it. Sessions keep what they have.
    pub fn forget_prefix(&self, tokens: &[u32]) {
        self.inner.cache().forget(tokens);
    }

    /// Forgets everything that sessions could adopt. They keep what they have.
    pub fn clear_prefixes(&self) {
        self.inner.cache().clear();
    }

    /// Bytes of weights that a token reads when it is alone in a step.
    #[must_use]
    pub fn bytes_per_token(&self) -> Bytes {
        self.inner.bytes_per_token
    }

    /// Generation parameters that the file recommends (`general.sampling.*`), else llama.cpp's defaults.
    #[must_use]
    pub fn default_params(&self) -> Params {
        self.inner.defaults.clone()
    }
}

impl Inner {
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(crate) fn cache(&self) -> MutexGuard<'_, PrefixCache> {
        // Its own code does not panic half way, so its numbers are right even after a panic elsewhere.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn price(&self) -> MutexGuard<'_, Price> {
        self.price.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn backend(&self) -> Result<MutexGuard<'_, Box<dyn Backend>>, EngineError> {
        self.backend.lock().map_err(|_| EngineError::Poisoned)
    }

    pub(crate) fn open_session(&self) -> Result<(), EngineError> {
        let limit = self.max_sessions;
        self.open_sessions
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| (open < limit).then_some(open + 1))
            .map(|_| ())
            .map_err(|_| EngineError::TooManySessions { limit })
    }

    pub(crate) fn close_session(&self) {
        self.open_sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Puts the model where the plan says.
#[cfg_attr(
    not(feature = "cuda"),
    expect(unused_variables, reason = "what was counted on a card is kept for this model")
)]
fn backend(
    plan: Plan,
    fingerprint: u64,
    pages: usize,
    progress: impl FnMut(Progress),
) -> Result<Box<dyn Backend>, LoadError> {
    #[cfg(feature = "cuda")]
    if let Placement::Card(number) | Placement::Split(number) = plan.placement {
        return Ok(Box::new(CudaBackend::load(plan, (number, fingerprint), pages, progress)?));
    }
    read_through(&plan.gguf, progress);
    Ok(Box::new(CpuBackend::new(plan, pages)?))
}

/// Touches every page of the mapping, so that the first prompt does not wait for the disk.
fn read_through(gguf: &Gguf, mut progress: impl FnMut(Progress)) {
    const REPORT_BYTES: u64 = 64 << 20;
    const PAGE_BYTES: usize = 4096;
    let total = gguf.tensors().map(|tensor| tensor.bytes()).sum();
    let (mut done, mut reported) = (0, 0);
    for tensor in gguf.tensors() {
        for chunk in gguf.data(tensor).chunks(REPORT_BYTES as usize) {
            chunk.iter().step_by(PAGE_BYTES).for_each(|byte| {
                black_box(byte);
            });
            done += chunk.len() as u64;
            if done - reported >= REPORT_BYTES {
                reported = done;
                progress(Progress { done: Bytes(done), total: Bytes(total) });
            }
        }
    }
    progress(Progress { done: Bytes(total), total: Bytes(total) });
}

/// Tells snapshots of different models or cache types apart: FNV-1a over the definition and the tensor table.
fn fingerprint(plan: &Plan) -> u64 {
    let table: Vec<_> =
        plan.gguf.tensors().map(|tensor| (&tensor.name, &tensor.dims, tensor.format)).collect();
    let mut text = format!("{:?} {:?} {table:?}", plan.def, plan.kv);
    if matches!(plan.placement, Placement::Card(_) | Placement::Split(_)) {
        // Its pages are laid out otherwise.
        text.push_str(" card");
    }
    if plan.no_block.is_some() {
        text.push_str(" without its block");
    }
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
