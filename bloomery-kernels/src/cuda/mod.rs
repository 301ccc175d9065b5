//! Kernels for NVIDIA cards.
//!
//! The kernels themselves are Rust too, in `bloomery-kernels/device`; their PTX is part of this crate and the driver
//! turns it into code for the card when a family is first used. The driver is found at run time: a machine without one
//! gets [`CudaError::NoDevice`].
//!
//! ```text
//! Device       one card: what it can do, its memory, its modules
//! Buffer, Span memory of the card, and a part of it; Pinned: host memory that the card reads at full speed
//! Stream       where work is queued; a Graph is work that was captured from it and runs again as a whole
//! HostSource   host memory that the card copies from in place; Desk: where kernels leave work for the host
//! Launch       one kernel with checked arguments: what the launchers (norm, ...) make and a stream takes
//! ```
//!
//! A launcher checks everything that its kernel relies on, so that running a [`Launch`] is safe; it also keeps the memory
//! alive that the kernel uses, as a captured graph does.

mod absorb;
mod activated;
mod attention;
mod beside;
mod blend;
mod candidates;
mod chosen;
mod delta;
mod device;
mod draft;
mod embed;
#[cfg(test)]
mod emulated;
mod error;
mod experts;
mod few;
mod formats;
mod gate;
mod graph;
mod heads;
mod holders;
mod host_source;
mod index;
mod kv;
mod latent;
mod launch;
mod many;
mod many_float;
mod memory;
mod module;
mod ngrams;
mod norm;
mod pack;
mod project;
mod ring;
mod rope;
mod route;
mod seats;
mod shared;
mod staging;
mod stream;
mod streams;
mod summaries;
mod take;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod upload;
mod weights;

pub use absorb::AbsorbAppend;
pub use attention::{Attend, AttendScratch, AttendTiles};
pub use beside::Beside;
pub use blend::{Blend, BlendPart};
pub use candidates::Candidates;
pub use chosen::Sight;
pub use delta::{Delta, DeltaForm, DeltaShape};
pub use device::{Device, DeviceInfo};
pub use draft::{Carry, Pair};
pub use embed::Embed;
pub use error::CudaError;
pub use experts::{FeedForward, Routed};
pub use formats::{embeds, gates, is_float, multiplies};
pub use gate::Gate;
pub use graph::Graph;
pub use heads::{HeadWeights, PerHead};
pub use holders::{Holder, holders};
pub use host_source::HostSource;
pub use index::{Chosen, IndexAppend, IndexCache, IndexPooling, IndexRows, Limits, Select, Spans};
pub use kv::{KvCache, KvRows};
pub use latent::LatentAppend;
pub use launch::Launch;
pub use memory::{Buffer, Pinned, Span};
pub use ngrams::{NgramAdd, NgramMix};
pub use norm::{AddNorm, NormQuantize, Rounded};
pub use pack::{Pack, TILE_ROWS};
pub use project::{Product, Project};
pub use ring::Tuning;
pub use rope::{Rope, RopeAngles, RopeAppend};
pub use route::{ByToken, Group, Narrow, Route, RouteNorm, Scores, Share, Tiles};
pub use seats::{Collect, Desk, DeskShape, Fetch, NOWHERE, Numbers, Seat};
pub use shared::SharedAppend;
pub use staging::Staging;
pub use stream::{Event, Stream};
pub use streams::{
    GatedMean, HyperConnections, HyperMade, HyperPass, HyperRead, HyperWrite, StreamMean, StreamNorm,
    StreamProducts, StreamWrite,
};
pub use summaries::{GroupCache, GroupRows, Summarise, SummaryAppend};
pub use take::Take;
pub use upload::Upload;
pub use weights::{Weight, WeightStack};
