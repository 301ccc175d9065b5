//! Decisions: typed questions about a state, all answered by one pass over one prompt, without generating a token.
//!
//! A decision model is a language model's trunk with a head that reads the hidden states of the whole prompt and gives a
//! logit to each option of each question. The head is in the model's file (architecture `clef`), or in files of its own,
//! which [`EngineBuilder::head`](crate::EngineBuilder::head) names.
//!
//! ```no_run
//! use bloomery_core::decide::{Json, Question};
//! use bloomery_core::{Engine, Error};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::builder("Cloudflare_clef-flash-Q4_K_M.gguf").plan()?.load(|_| {})?;
//! let state = Json::parse(r#"{"ticket": "The export fails since this morning.", "plan": "free"}"#)?;
//! let questions = [
//!     Question::choice("team", "Who should handle this?", [("billing", "Invoices"), ("technical", "Bugs")]),
//!     Question::score("urgency", "How urgent is it?", ["can wait", "this week", "today"]),
//!     Question::noul("outage", "Is the service down for everyone?"),
//! ];
//! let decision = engine.decide(&state, &questions)?;
//! println!("{}", decision.to_json());
//! # Ok(())
//! # }
//! ```

mod answer;
mod decider;
mod encode;
mod error;
mod head;
mod json;
mod maths;
mod memory;
pub(crate) mod part;
mod pieces;
mod question;
mod reading;
mod render;
mod seat;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Decision, Value};
pub use decider::Decider;
pub use encode::{Field, FieldOption, Prompt};
pub use error::{DecideError, QuestionError};
pub use head::HeadError;
pub(crate) use head::{HeadFiles, HeadPlan};
pub use json::{Json, JsonError};
pub use question::{Criteria, Question};
pub(crate) use seat::Seat;

/// Tokens of the longest prompt that decision models were made for.
pub(crate) const LONGEST: usize = 16_384;
