//! Which experts have a slot on the card, when not all of them fit.
//!
//! A policy and nothing else: it is told what was chosen and says what to copy. It knows no device and no clock, and equal
//! inputs give equal moves, so it is tested on recorded and on made up choices.
//!
//! ```text
//! decoded, prompted ─► Scores ─► Pool: candidates ─┐ ahead by a margin?   plan(n): copy to a free slot
//!                                      residents ──┘ coldest first        land(n + delay): the map changes
//! ```
//!
//! - **One pool for all layers** whose experts have the same size. How much of its choices a layer makes among few experts
//!   differs much between layers, so equal shares would be wrong; the coldest resident of all layers goes first.
//! - **Admission.** An expert comes in only if its [score](score) is ahead of that of the coldest resident by a margin. Where
//!   slots are plenty the coldest has not been used for long, its score is next to nothing, and what was chosen once comes
//!   in: least recently used. Where a step chooses as many experts as there are slots, all residents have high scores, and only what is chosen
//!   again and again comes in: most frequently used. Least recently used would throw out its own working set there.
//! - **Cost.** A move reads an expert once from host memory, as the miss does that it may save. So a margin of one choice, whatever the
//!   size of an expert, says that a move must be expected to save what it costs.
//! - **Landing.** The map changes at a step that is fixed when the move starts, however long the copy takes, since the side
//!   that computes an expert decides the last bits of its result.

mod heat;
mod policy;
mod pool;
mod score;
mod shape;
mod stats;
#[cfg(test)]
mod tests;
mod traffic;

pub(crate) use heat::Heat;
pub use heat::HeatError;
pub(crate) use policy::{NOWHERE, Residency};
pub(crate) use shape::{Expert, LayerShape, PoolShape, Rules, Shape};
pub(crate) use stats::Stats;
pub use traffic::Traffic;
