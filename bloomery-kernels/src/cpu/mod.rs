//! CPU kernels with run-time dispatch.
//!
//! Every kernel keeps one rule: for given weights and activations the result is the same bits on every
//! instruction set, for every number of rows in the call and for every number of threads. Integer dots of a block
//! are exact; the float sum over blocks has one fixed order, written once in the scalar twin.

mod activation;
mod affinity;
mod aligned;
mod attention;
mod delta;
pub mod dots;
mod embed;
mod experts;
mod ffn;
mod gate;
mod gemm;
mod groups;
mod index;
mod isa;
mod kv;
mod lanes;
mod math;
mod matrix;
mod ngrams;
mod norm;
mod per_head;
mod pool;
mod product;
mod project;
mod quantized;
mod rope;
mod route;
mod scratch;
mod shared;
mod split;
mod streams;
#[cfg(test)]
pub(crate) mod testing;

pub use activation::Activation;
pub use aligned::Aligned;
pub use attention::{AttendedPart, AttentionScratch, AttentionSpec, RowView};
pub use delta::{Delta, DeltaGate, DeltaInput, DeltaRows, DeltaRun, DeltaScratch, DeltaShape, DeltaWeights};
pub use experts::{Experts, NO_EXPERT, Routes};
pub use ffn::Ffn;
pub use groups::{GroupInput, GroupShape, GroupSpec};
pub use index::{
    Candidates, IndexLayer, IndexLayerMut, IndexQuery, IndexShape, LayerNorm, Masks, Pooling, Seen,
};
pub use isa::Isa;
pub use kv::{KvLayer, KvLayerMut, KvShape, KvType, PAGE, RowSlot};
pub use matrix::{KernelError, Matrix, Stack};
pub use ngrams::{NgramConv, NgramInput, NgramScratch, NgramWeights};
pub use norm::Norm;
pub use pool::Pool;
pub use project::Part;
pub use quantized::{Fill, Form, Quantized};
pub use rope::{HeadSpec, Pairs, RopeSpec, RopeTable, Yarn};
pub use route::{RouterGroups, RouterScore, RouterSpec, RouterWeights};
pub use scratch::Scratch;
pub use streams::{Columns, HyperSpec, MOST_STREAMS};

/// What every kernel needs to run: the worker threads, the instruction set and the rounding of activations.
#[derive(Debug)]
pub struct Cpu {
    pool: Pool,
    isa: Isa,
    numerics: Numerics,
}

/// How products treat activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numerics {
    /// Activations are rounded to int8 blocks where the weights are quantised (llama.cpp's choice too).
    #[default]
    Fast,
    /// Weights are dequantised and activations stay f32: slow, for checking an architecture apart from rounding.
    Exact,
}

impl Cpu {
    /// `isa` must be one of [`Isa::available`]; anything better than this machine has is lowered to what it has.
    #[must_use]
    pub fn new(pool: Pool, isa: Isa, numerics: Numerics) -> Self {
        Self { pool, isa: isa.min(Isa::detect()), numerics }
    }

    /// The worker threads.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The instruction set in use.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// How activations are rounded.
    #[must_use]
    pub fn numerics(&self) -> Numerics {
        self.numerics
    }
}
