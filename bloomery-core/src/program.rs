//! A model as a straight list of fused ops over a few buffers: what every backend runs.
//!
//! The list is made once, when the plan is made; a step of T rows runs it from front to back. An op is as much work
//! as one kernel of a card can do: six a layer for a mixture-of-experts decoder.

use bloomery_kernels::cpu::{IndexShape, KernelError, KvShape, KvType};

use crate::def::{Act, DeltaNet, Ngrams, Norm, Rope, Router};
use crate::units::Bytes;
use crate::weights::{HeadsId, MatrixId, StackId, VectorId, Weights};

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
    /// What chooses the positions that rows see.
    pub(crate) index: Option<IndexId>,
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

/// From keys of positions to the key of their block.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Pooling {
    /// Their mean, normed and turned. Queries are normed and turned too.
    Mean { q_norm: Gain, k_norm: Gain, rope: Rope },
    /// A sum weighed by gates, of keys after a layer norm of this gain, bias and epsilon; the last is added to gates.
    Softmax { norm: (VectorId, VectorId, f32), bias: VectorId },
}

impl Index {
    /// The cache this index needs.
    pub(crate) fn shape(&self) -> Result<IndexShape, KernelError> {
        IndexShape::new(self.width, matches!(self.pooling, Pooling::Softmax { .. }), self.block)
    }
}

/// Index into [`Program::indexes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexId(pub(crate) usize);

/// Hyper-connections of one part of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hyper {
    pub(crate) streams: usize,
    /// Three values.
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
    pub(crate) conv_norm: Gain,
    /// `[streams][width][taps]`, the newest position's tap last.
    pub(crate) conv: VectorId,
}

impl NgramLayer {
    /// Rows between the taps of the convolution: as many as the longest n-gram has tokens.
    pub(crate) fn dilation(&self) -> usize {
        self.hash.multipliers.len()
    }

    /// Values that a sequence keeps: the rows of all streams that the convolution sees before the next.
    pub(crate) fn state_len(&self) -> usize {
        self.dilation() * (self.hash.taps - 1) * self.streams * self.width
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

/// One fused op. Buffers are read and written row by row; `x` and `out` of one op never overlap except where named.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    /// `out[t] = scale * table[token[t]]`, in every of `copies` streams.
    Embed { table: MatrixId, scale: f32, copies: usize, out: Buffer },
    /// `out_p[t] (+)= W_p norm(x[t]) + b_p` for every part.
    Project { x: Buffer, norm: Option<Gain>, parts: Vec<Projection> },
    /// Head norms and rotary embedding of `q` and `k` in place, then `k` and `v` into the cache.
    RopeAppend { q: Buffer, k: Buffer, v: Buffer, attention: AttentionId },
    /// Causal attention of every row over its sequence's cache.
    Attend { q: Buffer, attention: AttentionId, out: Buffer },
    /// `x *= sigmoid(gate)`, value by value.
    Gate { x: Buffer, gate: Buffer },
    /// `out[t][h] = [W_h q[t][h][..nope] ; q[t][h][nope..]]`: queries as products with latents.
    Absorb { q: Buffer, keys: HeadsId, out: Buffer },
    /// Rotary embedding of the last dimensions of `q`'s heads in place; the latent `norm(kv[..latent])` and the turned rest of `kv`
    /// into the cache as a key, the latent alone as a value.
    LatentAppend { q: Buffer, kv: Buffer, norm: Gain, attention: AttentionId },
    /// `out[t][h] = W_h x[t][h]`.
    PerHead { x: Buffer, weights: HeadsId, out: Buffer },
    /// All of a gated delta net between its projections.
    Delta { qkv: Qkv, z: Buffer, beta: Buffer, alpha: Buffer, delta: DeltaId, out: Buffer },
    /// `out[t]` = the row of `x` before `t` in its sequence; before a step's first row that of its state, zeros at position 0. States
    /// that are kept get their row of `x`.
    Previous { x: Buffer, out: Buffer },
    /// `out[t]` = what the state of row `t`'s sequence has of [`Previous`](Self::Previous).
    Carried { out: Buffer },
    /// `out[t] = [embedding_norm(table[token[t]]) ; norm(x[t])]`, for every stream of `x`.
    Pair { table: MatrixId, embedding_norm: Gain, x: Buffer, norm: Gain, streams: usize, out: Buffer },
    /// `out[t][s] = W x[t][s]`.
    ProjectStreams { x: Buffer, part: Projection, streams: usize },
    /// `out = x`.
    Copy { x: Buffer, out: Buffer },
    /// `to` = the rows of `from` whose logits are wanted.
    Take { from: Buffer, to: Buffer },
    /// `out = norm(x)`.
    Norm { x: Buffer, norm: Gain, out: Buffer },
    /// `out += norm(x)`.
    AddNorm { x: Buffer, norm: Gain, out: Buffer },
    /// Keys of positions, and gates where there are any, into an index; keys of the blocks that they complete.
    IndexAppend { keys: Buffer, gates: Option<Buffer>, index: IndexId },
    /// Chooses the blocks that each row sees in the next [`Attend`](Self::Attend); `q` may change.
    Select { q: Buffer, weights: Option<Buffer>, index: IndexId },
    /// `out = norm(x)`, stream by stream.
    StreamNorm { x: Buffer, norm: Gain, streams: usize, out: Buffer },
    /// `x = silu(scale x)`.
    ScaledSilu { x: Buffer, scale: f32 },
    /// `out[t]` = the mean over streams of `sigmoid(gate) x`.
    GatedMean { x: Buffer, gate: Buffer, streams: usize, out: Buffer },
    /// `x[t][s] += 2 sigmoid(weights[t][s] / streams) y[t]`.
    Inject { y: Buffer, weights: Buffer, streams: usize, x: Buffer },
    /// Logits of hyper-connections into weights, and what they read of `x`.
    HyperRead { x: Buffer, weights: Buffer, hyper: Hyper, out: Buffer },
    /// `x[t][j] = write[j] y[t] + sum over i of mix[i][j] x[t][i]`.
    HyperWrite { y: Buffer, weights: Buffer, hyper: Hyper, x: Buffer },
    /// `out[t]` = the mean of the streams of `x[t]`.
    StreamMean { x: Buffer, streams: usize, out: Buffer },
    /// `out[t]` = rows of the [table](Program::ngrams) by hashes of token `t` and those before, side by side.
    Ngrams { out: Buffer },
    /// What keys and values from those rows add to the streams of `x`.
    NgramMix { key: Buffer, value: Buffer, x: Buffer },
    /// `normed = norm(x)`, and the experts of every row by its router logits. Without a norm `normed` is `x`.
    Route { x: Buffer, norm: Option<Gain>, normed: Buffer, router: Routing, used: usize },
    /// `out[t] += sum over the row's experts`.
    Experts { normed: Buffer, experts: ExpertStacks, out: Buffer },
    /// `out[t] (+)= down(act(gate n) * (up n))`, `n = normed[t]`.
    Gated { normed: Buffer, gated: Gated, out: Buffer },
}

impl Op {
    /// What users call it where there is no kernel for it.
    #[cfg(feature = "cuda")]
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::StreamNorm { .. }
            | Self::ProjectStreams { .. }
            | Self::Copy { .. }
            | Self::ScaledSilu { .. }
            | Self::GatedMean { .. }
            | Self::Inject { .. } => "residual streams behind gates",
            Self::HyperRead { .. } | Self::HyperWrite { .. } | Self::StreamMean { .. } => "hyper-connections",
            Self::Ngrams { .. } | Self::NgramMix { .. } => "hashed n-grams",
            _ => "a part of this model",
        }
    }
}

/// How a layer routes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Routing {
    pub(crate) weight: MatrixId,
    pub(crate) bias: Option<VectorId>,
    pub(crate) spec: Router,
}

/// A model, ready for a backend.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    /// Every buffer, by index.
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) attentions: Vec<Attention>,
    pub(crate) deltas: Vec<Delta>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) ngrams: Option<NgramLayer>,
    /// Where the logits of the output rows end up.
    pub(crate) logits: Buffer,
    pub(crate) hidden: Hidden,
    pub(crate) draft: Option<Draft>,
}

/// A block that guesses tokens.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// Where in the program's ops [`follow`](Self::follow) belongs.
    pub(crate) at: usize,
    /// What every step does for guesses to come: the block's keys and values of all rows, and the last row for the state.
    pub(crate) follow: Vec<Op>,
    /// A pass that guesses a token for one row of each sequence.
    ///
    /// The first is [`Op::Carried`]: a pass that goes on from the one before leaves it out, because the last but one writes to the
    /// same buffer. The last are the logits.
    pub(crate) ops: Vec<Op>,
    /// Width of the row in the state.
    pub(crate) carried: usize,
}

/// How hidden states come out in place of logits.
#[derive(Debug, Clone)]
pub(crate) struct Hidden {
    /// Takes the place of the last op, unless the rows are there without it.
    pub(crate) op: Option<Op>,
    pub(crate) buffer: Buffer,
}

impl Program {
    /// Bytes of weights that a step of one row reads: matrices once, and of every stack the experts in use.
    pub(crate) fn bytes_per_token(&self, weights: &Weights) -> Bytes {
        let mut used_now = 0;
        let mut total = Bytes::default();
        for op in self.step_ops() {
            match op {
                Op::Embed { .. }
                | Op::RopeAppend { .. }
                | Op::Attend { .. }
                | Op::Gate { .. }
                | Op::LatentAppend { .. }
                | Op::Delta { .. }
                | Op::Previous { .. }
                | Op::Carried { .. }
                | Op::Pair { .. }
                | Op::Take { .. }
                | Op::Norm { .. }
                | Op::AddNorm { .. }
                | Op::IndexAppend { .. }
                | Op::Select { .. }
                | Op::StreamNorm { .. }
                | Op::ScaledSilu { .. }
                | Op::GatedMean { .. }
                | Op::Inject { .. }
                | Op::HyperRead { .. }
                | Op::HyperWrite { .. }
                | Op::StreamMean { .. }
                | Op::Ngrams { .. }
                | Op::NgramMix { .. }
                | Op::Copy { .. } => {}
                Op::ProjectStreams { part, .. } => total += weights.matrix_bytes(part.weight),
                Op::Absorb { keys: heads, .. } | Op::PerHead { weights: heads, .. } => {
                    total += weights.heads_bytes(*heads);
                }
                Op::Project { parts, .. } => {
                    total += parts.iter().map(|part| weights.matrix_bytes(part.weight)).sum::<Bytes>();
                }
                Op::Route { router, used, .. } => {
                    total += weights.matrix_bytes(router.weight);
                    used_now = *used;
                }
                Op::Experts { experts, .. } => {
                    let one = [experts.gate, experts.up, experts.down].map(|id| weights.expert_bytes(id).0);
                    total += Bytes(one.iter().sum::<u64>() * used_now as u64);
                }
                Op::Gated { gated, .. } => {
                    total += [gated.gate, gated.up, gated.down]
                        .map(|id| weights.matrix_bytes(id))
                        .into_iter()
                        .sum();
                }
            }
        }
        total
    }

    /// The ops of a step in order, those for guesses to come among them.
    pub(crate) fn step_ops(&self) -> impl Iterator<Item = &Op> + Clone {
        let (at, follow) = self.draft.as_ref().map_or((0, [].as_slice()), |draft| (draft.at, &draft.follow));
        let (before, after) = self.ops.split_at(at);
        before.iter().chain(follow).chain(after)
    }

    /// Those, and the ones of guesses.
    #[cfg(feature = "cuda")]
    pub(crate) fn all_ops(&self) -> impl Iterator<Item = &Op> {
        self.step_ops().chain(self.draft.iter().flat_map(|draft| &draft.ops))
    }

    /// The program without its block.
    pub(crate) fn trunk(&self) -> Self {
        let mut trunk = self.clone();
        let Some(draft) = trunk.draft.take() else { return trunk };
        for op in &draft.follow {
            // Its attention layers are the last, as are their indexes.
            match op {
                Op::RopeAppend { attention, .. } | Op::LatentAppend { attention, .. } => {
                    trunk.attentions.truncate(attention.0);
                }
                Op::IndexAppend { index, .. } => trunk.indexes.truncate(index.0),
                _ => {}
            }
        }
        trunk
    }

    /// Values of a sequence's recurrent state; 0 where there are no recurrent layers.
    pub(crate) fn state_len(&self) -> usize {
        let carried = self.draft.as_ref().map_or(0, |draft| draft.carried);
        let deltas: usize = self.deltas.iter().map(|delta| delta.net.state_len()).sum();
        deltas + self.ngrams.as_ref().map_or(0, NgramLayer::state_len) + carried
    }

    /// The same in bytes.
    pub(crate) fn state_bytes(&self) -> Bytes {
        Bytes::of(self.state_len(), size_of::<f32>())
    }

    /// Bytes of a page of keys and values of all attention layers, and of their indexes.
    pub(crate) fn page_bytes(&self, kv: KvType) -> Result<Bytes, KernelError> {
        let caches = self.attentions.iter().map(|attention| {
            let shape = attention.cache_shape(kv)?;
            Ok(Bytes::of(1, shape.key_page_bytes() + shape.value_page_bytes()))
        });
        let indexes =
            self.indexes.iter().map(|index| Ok(Bytes::of(index.shape()?.page_len(), size_of::<f32>())));
        caches.chain(indexes).sum()
    }

    /// Bytes of all buffers for steps of `rows` rows of which `outputs` want logits.
    pub(crate) fn buffer_bytes(&self, rows: usize, outputs: usize) -> Bytes {
        let size = |buffer: &Buffer| match buffer.rows {
            Rows::All => buffer.cols * rows,
            Rows::Outputs => buffer.cols * outputs,
        };
        self.buffers.iter().map(|buffer| Bytes::of(size(buffer), size_of::<f32>())).sum()
    }
}
