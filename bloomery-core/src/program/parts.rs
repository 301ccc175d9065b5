//! What ops name: buffers, and what belongs to a layer.

use bloomery_kernels::cpu::{GroupShape, IndexShape, KernelError, KvShape, KvType};

use crate::def::{Act, DeltaNet, Ngrams, Norm, Rope, Router};
use crate::weights::{MatrixId, NumbersId, StackId, VectorId};

/// How many rows of a step a buffer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rows {
    /// One for every token of the step.
    All,
    /// One for every token whose logits are wanted.
    Outputs,
}

/// A buffer of f32 rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Buffer {
    pub(crate) index: usize,
    pub(crate) cols: usize,
    pub(crate) rows: Rows,
}

/// A norm and its gain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gain {
    pub(crate) norm: Norm,
    pub(crate) gain: VectorId,
}

/// One of several products of the same rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Projection {
    pub(crate) weight: MatrixId,
    pub(crate) bias: Option<VectorId>,
    pub(crate) out: Buffer,
    /// Adds to `out` (the residual) instead of replacing it.
    pub(crate) accumulate: bool,
}

/// An attention layer as the ops see it: plain heads, or latents that all query heads share.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attention {
    /// Query heads, a multiple of `kv_heads`.
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) key_dim: usize,
    pub(crate) value_dim: usize,
    /// Multiplies scores.
    pub(crate) scale: f32,
    /// Positions that a row sees, its own included.
    pub(crate) window: Option<usize>,
    pub(crate) rope: Rope,
    /// The dimension of a query or key at which the turning part begins.
    pub(crate) rope_first: usize,
    pub(crate) q_norm: Option<Gain>,
    pub(crate) k_norm: Option<Gain>,
    pub(crate) factors: Option<VectorId>,
    /// Of every head, a score that takes part in the softmax and has no value.
    pub(crate) sinks: Option<VectorId>,
    /// The index by which positions are chosen, where one layer's choice is for itself.
    pub(crate) index: Option<IndexId>,
    /// Whether rows see only the positions that were chosen before.
    pub(crate) is_masked: bool,
    /// Whether rows see all rows of their sequence in the step, also later ones.
    pub(crate) whole: bool,
}

impl Attention {
    /// The cache this layer needs.
    pub(crate) fn cache_shape(&self, kv: KvType) -> Result<KvShape, KernelError> {
        KvShape::new(self.kv_heads, (self.key_dim, kv), (self.value_dim, kv))
    }
}

/// An index over blocks of positions, and its small tensors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Index {
    pub(crate) heads: usize,
    pub(crate) width: usize,
    /// Positions of a block.
    pub(crate) block: usize,
    /// Blocks that a row sees.
    pub(crate) keep: usize,
    pub(crate) pooling: Pooling,
}

/// What a choice has to do with the candidates of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Candidates {
    None,
    /// It chooses `keep` spans of `size` blocks.
    Make {
        size: usize,
        keep: usize,
    },
    /// It chooses among spans of `size` blocks.
    Use {
        size: usize,
    },
}

/// From keys of positions to the key of their block.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Pooling {
    /// Their mean, normed and turned. Queries are normed and turned too.
    Mean { q_norm: Gain, k_norm: Gain, rope: Rope },
    /// A sum weighed by gates, of keys after a layer norm of this gain, bias and epsilon; the last is added to gates.
    Softmax { norm: (VectorId, VectorId, f32), bias: VectorId },
    /// That of its last position, which was made of all of them: normed, and turned like queries, from a value on.
    Made { norm: Option<Gain>, rope: Rope, rope_first: usize },
}

impl Index {
    /// The cache this index needs.
    pub(crate) fn shape(&self) -> Result<IndexShape, KernelError> {
        match self.pooling {
            Pooling::Made { .. } => IndexShape::of_blocks(self.width, self.block),
            Pooling::Mean { .. } => IndexShape::new(self.width, false, self.block),
            Pooling::Softmax { .. } => IndexShape::new(self.width, true, self.block),
        }
    }
}

/// Index into [`Program::indexes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexId(pub(crate) usize);

/// Rows that stand for groups of positions, and how they are made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    /// Values of a row.
    pub(crate) width: usize,
    pub(crate) positions: usize,
    /// Whether a row is also of the group before.
    pub(crate) overlap: bool,
    /// Added to gates: `[positions][channels]`.
    pub(crate) places: Option<VectorId>,
    pub(crate) norm: Gain,
}

impl Group {
    /// The memory this needs.
    pub(crate) fn shape(&self) -> Result<GroupShape, KernelError> {
        GroupShape::new(self.width, self.positions, self.overlap)
    }
}

/// Index into [`Program::groups`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupId(pub(crate) usize);

/// Index into [`Program::ngrams`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NgramId(pub(crate) usize);

/// What attention over a part of what rows see returns: values, and logarithms of the sums of `e^score`, a value each head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Attended {
    pub(crate) values: Buffer,
    pub(crate) sums: Buffer,
}

/// Hyper-connections of one part of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hyper {
    pub(crate) streams: usize,
    /// Three values; one where streams are only read.
    pub(crate) scale: VectorId,
    pub(crate) base: VectorId,
    /// Of all streams together.
    pub(crate) norm: Norm,
    pub(crate) eps: f32,
    pub(crate) rounds: usize,
}

/// What a layer adds to the streams by hashes of tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NgramLayer {
    pub(crate) hash: Ngrams,
    pub(crate) table: MatrixId,
    pub(crate) streams: usize,
    /// Of a stream.
    pub(crate) width: usize,
    pub(crate) key_norm: Gain,
    pub(crate) query_norm: Gain,
    /// What follows, if anything does.
    pub(crate) conv: Option<NgramConv>,
}

/// A convolution over the values of n-grams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NgramConv {
    pub(crate) norm: Gain,
    /// `[streams][width][taps]`, the newest position's tap last.
    pub(crate) weights: VectorId,
    pub(crate) taps: usize,
}

impl NgramLayer {
    /// Rows between the taps of the convolution: as many as the longest n-gram has tokens.
    pub(crate) fn dilation(&self) -> usize {
        self.hash.multipliers.len()
    }

    /// Values that a sequence keeps: the rows of all streams that the convolution sees before the next.
    pub(crate) fn state_len(&self) -> usize {
        self.conv.map_or(0, |conv| self.dilation() * (conv.taps - 1) * self.streams * self.width)
    }
}

/// Queries, keys and values of a delta net.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Qkv {
    /// One after the other in each row.
    Joined(Buffer),
    Apart([Buffer; 3]),
}

/// A delta layer and its small tensors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Delta {
    pub(crate) net: DeltaNet,
    /// `[channels][taps]`, the newest position's tap last: of all channels, or of queries, keys and values.
    pub(crate) conv: Vec<VectorId>,
    /// `-exp(A_log)` of every value head.
    pub(crate) decay: VectorId,
    /// Added to `alpha`.
    pub(crate) dt: VectorId,
    /// Of every value head's result: `head_dim` values.
    pub(crate) norm: Gain,
}

/// Index into [`Program::deltas`], which is also the number of the layer's part of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeltaId(pub(crate) usize);

/// Index into [`Program::attentions`], which is also the number of the layer's key/value cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttentionId(pub(crate) usize);

/// The three projections of all experts of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ExpertStacks {
    pub(crate) gate: StackId,
    pub(crate) up: StackId,
    pub(crate) down: StackId,
    pub(crate) act: Act,
}

/// The three projections of one gated network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gated {
    pub(crate) gate: MatrixId,
    pub(crate) up: MatrixId,
    pub(crate) down: MatrixId,
    pub(crate) act: Act,
    /// A vector whose product with the row, through a sigmoid, multiplies the result.
    pub(crate) share: Option<VectorId>,
    /// Adds to `out` (the residual) instead of replacing it.
    pub(crate) accumulate: bool,
}

/// How a layer routes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Routing {
    pub(crate) weight: MatrixId,
    pub(crate) bias: Option<VectorId>,
    /// `[vocab][used]`: the experts of every token.
    pub(crate) by_token: Option<NumbersId>,
    pub(crate) spec: Router,
}
