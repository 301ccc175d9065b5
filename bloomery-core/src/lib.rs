//! The inference engine of bloomery: a GGUF file in, text out.
//!
//! Three nouns: an [`Engine`] is loaded weights, a [`Session`] one conversation's state, a [`Placement`] where bytes
//! may live. A [`Plan`] can be printed before anything is paid for.
//!
//! ```
//! use bloomery_core::{Conversation, Engine, ModelSource};
//!
//! let plan = Engine::builder(ModelSource::demo()).plan()?; // or a path; reads headers only
//! println!("{plan}");
//! let engine = plan.load(|_| {})?;
//! let mut session = engine.session()?;
//! let mut chat = Conversation::new();
//! chat.user("Tell me a story about a fox.");
//! let params = bloomery_core::Params { max_tokens: Some(16), ..engine.default_params() };
//! for piece in chat.answer(&mut session, &params)? {
//!     print!("{}", piece?.text);
//! }
//! # Ok::<(), bloomery_core::Error>(())
//! ```
#![forbid(unsafe_code)]

mod arch;
mod backend;
pub mod chat;
pub mod constrain;
pub mod decide;
pub mod def;
#[cfg(feature = "demo")]
mod demo;
mod draft;
mod engine;
mod error;
mod generate;
#[cfg(feature = "hub")]
pub mod hub;
mod layers;
mod plan;
mod prefix;
mod program;
#[cfg_attr(
    not(any(feature = "cuda", test)),
    expect(dead_code, unused_imports, reason = "without kernels nothing is on a card")
)]
mod residency;
pub mod sampling;
pub mod scheduler;
mod session;
mod state;
pub mod tokenizer;
mod units;
mod weights;

pub use arch::supported as supported_architectures;
pub use backend::{GraphFacts, StageTime};
pub use bloomery_kernels::cpu::{Isa, KvType, Numerics};
pub use draft::{Block, Drafts, Ngram};
pub use engine::{Engine, Facts, Logits, Rebalanced, Turn};
pub use error::{EngineError, Error, LoadError, PlanError, Term};
pub use generate::{Cancel, Conversation, Generation, Params, Piece, StopReason, Timings};
pub use plan::{
    CardFacts, CardPick, Cards, Context, EngineBuilder, HostExperts, HostFacts, ModelSource, Placement, Plan,
    Predicted, Progress, ResidencyMode, TensorRules,
};
pub use prefix::PrefixStats;
pub use residency::{HeatError, Traffic};
pub use session::Session;
pub use state::Snapshot;
pub use units::{Bytes, Rate, SizeError};

/// The README, so that its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
