//! What can go wrong, with the numbers a user asks for next.

use std::fmt;
use std::path::PathBuf;

use bloomery_gguf::{Format, GgufError};
use bloomery_kernels::cpu::KernelError;

use crate::chat::TemplateError;
use crate::constrain::ConstraintError;
use crate::decide::HeadError;
use crate::residency::HeatError;
use crate::sampling::SamplingError;
use crate::tokenizer::TokenizerError;
use crate::units::Bytes;

/// A file that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The container is unreadable, broken or lacks a key.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// No code for this architecture.
    #[error("unknown architecture `{name}`; supported: {}", supported.join(", "))]
    UnknownArchitecture {
        /// `general.architecture` of the file.
        name: String,
        /// What this engine runs.
        supported: Vec<&'static str>,
    },
    /// A metadata value there is no code for.
    #[error("{key} = {value} is not supported (supported: {supported})")]
    UnsupportedConfig {
        /// The full metadata key.
        key: String,
        /// Its value.
        value: String,
        /// The values there is code for.
        supported: &'static str,
    },
    /// Counts of chosen experts that were kept are unreadable or of another model.
    #[error(transparent)]
    Heat(#[from] HeatError),
    /// A tensor of the architecture is not in the file.
    #[error("tensor `{name}` is missing")]
    MissingTensor {
        /// The name looked for.
        name: String,
    },
    /// A tensor has other dimensions than the metadata implies.
    #[error("tensor `{name}` has dimensions {found:?}, the metadata implies {expected:?}")]
    TensorShape {
        /// Its name.
        name: String,
        /// Implied dimensions, fastest first.
        expected: Vec<u64>,
        /// Dimensions in the file, fastest first.
        found: Vec<u64>,
    },
    /// A tensor is stored in a format it cannot be used in.
    #[error("tensor `{tensor}` is stored as {format}, which cannot be used there")]
    UnsupportedFormat {
        /// Its name.
        tensor: String,
        /// Its format.
        format: Format,
    },
    /// The file has tensors the architecture does not use: running it would ignore part of the model.
    #[error("{} tensors are unknown to architecture `{architecture}`: {}", names.len(), abbreviated(names))]
    UnknownTensors {
        /// `general.architecture`.
        architecture: String,
        /// Their names.
        names: Vec<String>,
    },
    /// A file is no block for the next tokens of the model.
    #[error("`{}` is no block for the next tokens of this model: {why}", path.display())]
    NotABlock {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A decision head is broken, or does not fit the model.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A shape there is no kernel for.
    #[error("kernel: {0}")]
    Kernel(#[from] KernelError),
    /// The card does not take the model.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(#[from] bloomery_kernels::cuda::CudaError),
    /// The file is not there and could not be downloaded.
    #[cfg(feature = "hub")]
    #[error(transparent)]
    Hub(#[from] crate::hub::HubError),
    /// The file's tokenizer is not supported or broken.
    #[error("tokenizer: {0}")]
    Tokenizer(#[from] TokenizerError),
    /// The file's chat template does not parse.
    #[error("chat template: {0}")]
    Template(#[from] TemplateError),
}

fn abbreviated(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(", …");
    }
    text
}

/// One term of a memory plan.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// What the memory holds.
    pub what: &'static str,
    /// How much of it.
    pub bytes: Bytes,
    /// How the number comes about, for people.
    pub detail: String,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.bytes)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

/// A plan that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The file cannot be run at all.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The model and its caches are larger than the memory of a device.
    #[error(
        "does not fit {device}: {need} needed, {free} available [{}]{}{}",
        joined(terms),
        held(holders),
        before(tried)
    )]
    DoesNotFit {
        /// The device, for people.
        device: String,
        /// Sum of the terms.
        need: Bytes,
        /// What the device has left.
        free: Bytes,
        /// What was added up.
        terms: Vec<Term>,
        /// Other programs that have memory of the device, as far as is known.
        holders: Vec<String>,
        /// What was tried before this device, and why it was not possible.
        tried: Vec<String>,
    },
    /// The card that was asked for cannot be used.
    #[error("card {card}: {why}")]
    NoCard {
        /// Its number.
        card: usize,
        /// What is there in its place.
        why: String,
    },
    /// There are no kernels for the model, or for an option, on a card.
    #[error("not on a card: {why}")]
    NotOnCard {
        /// What there is no kernel for.
        why: String,
    },
    /// A model was to be spread over several cards, which this release cannot do.
    #[error(
        "a model over {wanted} cards is not in this release; {}, of which `a` takes the largest and a number that one",
        listed(cards)
    )]
    SeveralCards {
        /// How many cards.
        wanted: usize,
        /// Those there are, for people.
        cards: Vec<String>,
    },
    /// An option has a value that makes no sense.
    #[error("{option} = {value}: {why}")]
    Invalid {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What would be right.
        why: String,
    },
}

impl PlanError {
    /// The same, with what was tried before.
    pub(crate) fn after(mut self, earlier: impl IntoIterator<Item = String>) -> Self {
        if let Self::DoesNotFit { tried, .. } = &mut self {
            tried.extend(earlier);
        }
        self
    }
}

fn held(holders: &[String]) -> String {
    if holders.is_empty() { String::new() } else { format!("; held by {}", holders.join(", ")) }
}

fn before(tried: &[String]) -> String {
    if tried.is_empty() { String::new() } else { format!("; before that: {}", tried.join("; ")) }
}

fn listed(cards: &[String]) -> String {
    if cards.is_empty() { "there is no card".to_owned() } else { format!("there are {}", cards.join(", ")) }
}

fn joined(terms: &[Term]) -> String {
    terms.iter().map(Term::to_string).collect::<Vec<_>>().join(", ")
}

/// A running engine's refusal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The session has no room for the tokens.
    #[error("context is full: {len} positions used, {adding} more asked for, {context} in all")]
    ContextFull {
        /// Positions in use.
        len: usize,
        /// Tokens to add.
        adding: usize,
        /// The session's limit.
        context: usize,
    },
    /// All sessions that were planned for exist already.
    #[error("all {limit} sessions are in use")]
    TooManySessions {
        /// Sessions planned for.
        limit: usize,
    },
    /// The sessions together have no room for the tokens, each for itself has.
    #[error("cache is full: {needed} pages needed, {free} of {total} free")]
    PoolExhausted {
        /// Pages that all tokens of the step would take.
        needed: usize,
        /// Pages that no session has.
        free: usize,
        /// Pages of the pool.
        total: usize,
    },
    /// There is no slot for the recurrent state of a session, and none that could be taken from a prefix.
    #[error("all {total} slots for recurrent states are in use")]
    NoStateSlot {
        /// Slots in all.
        total: usize,
    },
    /// The pool was to change its size, and there are no experts that could give or take memory.
    #[error(
        "the pool has the size it was planned with: only where a card has a part of the experts it can change"
    )]
    NotSplit,
    /// Guesses were asked of a block that the model does not have, or that its device does not run.
    #[error("the model has no block for the next tokens that runs here")]
    NoBlock,
    /// The pool was to be smaller than what sessions hold of it.
    #[error("the cache cannot have {wanted} positions: sessions hold positions up to {held} of it")]
    PoolInUse {
        /// Positions asked for.
        wanted: usize,
        /// Positions up to the last page that a session has.
        held: usize,
    },
    /// The pool was to be larger than the card's memory allows.
    #[error("the cache cannot have {wanted} positions: {most} are possible, without a slot for experts then")]
    PoolTooLarge {
        /// Positions asked for.
        wanted: usize,
        /// Most that are possible.
        most: usize,
    },
    /// A token id outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocab}")]
    UnknownToken {
        /// The id.
        id: u32,
        /// Ids in the vocabulary.
        vocab: usize,
    },
    /// An operation that needs at least one token got none.
    #[error("{what} needs at least one token")]
    NoTokens {
        /// The operation.
        what: &'static str,
    },
    /// A session of another engine was passed.
    #[error("the session or snapshot belongs to another engine")]
    ForeignSession,
    /// A position beyond the end of the session.
    #[error("cannot truncate to {position}: the session has {len} positions")]
    BadPosition {
        /// The position asked for.
        position: usize,
        /// Positions in use.
        len: usize,
    },
    /// Snapshot bytes that are not a snapshot of this model.
    #[error("snapshot: {why}")]
    BadSnapshot {
        /// What is wrong with it.
        why: String,
    },
    /// The model has no chat template.
    #[error("the model has no chat template")]
    NoChatTemplate,
    /// The chat template refused the conversation.
    #[error("chat template: {0}")]
    Template(#[from] TemplateError),
    /// The text cannot be turned into tokens.
    #[error("tokenizer: {0}")]
    Tokenizer(#[from] TokenizerError),
    /// A grammar or another constraint cannot go on.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// More jobs than may run and wait.
    #[error("the queue is full: {running} jobs run and {waiting} wait")]
    QueueFull {
        /// Jobs that may run.
        running: usize,
        /// Jobs that may wait.
        waiting: usize,
    },
    /// A slot's number is too large.
    #[error("there is no slot {slot}: the slots are 0 to {}", slots - 1)]
    NoSuchSlot {
        /// The number.
        slot: usize,
        /// How many slots there are.
        slots: usize,
    },
    /// A step with this job failed.
    #[error("a step failed: {message}")]
    StepFailed {
        /// Why.
        message: String,
    },
    /// The scheduler has ended.
    #[error("the scheduler has stopped")]
    Stopped,
    /// A sampling parameter makes no sense, or the logits are unusable.
    #[error("sampling: {0}")]
    Sampling(#[from] SamplingError),
    /// Weights that stay in the model's file could not be read.
    #[error(transparent)]
    File(#[from] GgufError),
    /// A kernel's contract was broken: a defect of the engine.
    #[error("kernel: {0}")]
    Kernel(#[from] KernelError),
    /// The card failed.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(#[from] bloomery_kernels::cuda::CudaError),
    /// The host's part in a step failed: experts that the card has no room for. The engine goes on.
    #[cfg(feature = "cuda")]
    #[error("experts of routed layer {layer} on the host: {why}")]
    HostExperts {
        /// Number of the layer among those with experts.
        layer: usize,
        /// What went wrong.
        why: String,
    },
    /// A step, or a change of the pool's size, failed in the middle earlier; the engine's caches are not to be trusted.
    #[error("an earlier step failed in the middle; load the model again")]
    Poisoned,
}

/// Anything this crate reports, for callers that do not care which.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// While planning.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// While loading.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// While running.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
