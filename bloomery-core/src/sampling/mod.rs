//! From logits to a token: parameters, the sampler chain, stop strings.
//!
//! The chain, its order, its defaults and its edge cases are llama.cpp's. Random numbers are this
//! crate's own, so the same seed gives other tokens there than here, drawn from the same distribution.
//! Differences that are kept on purpose:
//!
//! * Equal logits are ordered by token id, lower first, so no result depends on a sort's whims.
//! * Tokens with a logit of -inf (masked, biased away, cut by `top_n_sigma`) are no candidates at all;
//!   they count neither for `min_keep` nor for the entropy of `typical_p` and dynamic temperature.
//! * Mirostat 1 keeps every token when its estimate of k overflows an integer.
//!
//! ```
//! use bloomery_core::sampling::{Sampler, SamplingParams, Seed};
//!
//! let params = SamplingParams { temperature: 0.7, seed: Seed::Fixed(7), ..Default::default() };
//! let mut sampler = Sampler::new(&params, 4096)?;
//! let sampled = sampler.sample(&[0.5, 3.0, 1.0], None)?;
//! sampler.accept(sampled.id);
//! # Ok::<(), bloomery_core::sampling::SamplingError>(())
//! ```

mod adaptive;
mod candidates;
mod chain;
mod draw;
mod dry;
mod error;
mod history;
mod kind;
mod mass;
mod math;
mod mirostat;
mod needs;
mod params;
mod rng;
mod sampler;
mod stop;
mod temperature;
mod top;
mod truncate;

pub use dry::Breakers;
pub use error::SamplingError;
pub use kind::SamplerKind;
pub use needs::{MOST_CANDIDATES, Needs, TopLogits};
pub use params::{Mirostat, SamplingParams, Seed};
pub use sampler::{Sampled, Sampler, TokenProb};
pub use stop::{StopMatcher, StopStep};
