//! A model as a straight list of fused ops over a few buffers: what every backend runs.
//!
//! The list is made once, when the plan is made; a step of T rows runs it from front to back. An op is as much work
//! as one kernel of a card can do: six a layer for a mixture-of-experts decoder.

mod narrow;
mod parts;

use bloomery_kernels::cpu::{KernelError, KvType};

use crate::units::Bytes;
use crate::weights::{HeadsId, MatrixId, VectorId, Weights};

pub(crate) use narrow::Narrow;
pub(crate) use parts::{
    Attended, Attention, AttentionId, Buffer, Candidates, Delta, DeltaId, ExpertStacks, Gain, Gated, Group,
    GroupId, Hyper, Index, IndexId, NgramConv, NgramId, NgramLayer, Pooling, Projection, Qkv, Routing, Rows,
};

/// One fused op. Buffers are read and written row by row; `x` and `out` of one op never overlap except where named.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    /// `out[t] = scale * table[token[t]]`, in every of `copies` streams.
    Embed { table: MatrixId, scale: f32, copies: usize, out: Buffer },
    /// `out_p[t] (+)= W_p norm(x[t]) + b_p` for every part.
    Project { x: Buffer, norm: Option<Gain>, parts: Vec<Projection> },
    /// Head norms and rotary embedding of `q` and `k` in place, then `k` and `v` into the cache.
    RopeAppend { q: Buffer, k: Buffer, v: Buffer, attention: AttentionId },
    /// The same, keys being values too.
    SharedAppend { q: Buffer, k: Buffer, attention: AttentionId },
    /// Causal attention of every row over its sequence's cache.
    Attend { q: Buffer, attention: AttentionId, out: Buffer },
    /// The same over a part of what rows see, which may be nothing.
    AttendPart { q: Buffer, attention: AttentionId, out: Attended },
    /// Attention over both parts at once, with a sink for every head.
    Blend { parts: [Attended; 2], sinks: VectorId, out: Buffer },
    /// Turns the last values of heads back, by the rotation of the layer.
    TurnBack { x: Buffer, attention: AttentionId },
    /// `out[t]` = the row that stands for the group that ends at `t`; zeros where none does.
    Summarise { values: Buffer, gates: Option<Buffer>, group: GroupId, out: Buffer },
    /// Rows of groups, turned as at a group's first position, into the cache at its last.
    SummaryAppend { rows: Buffer, positions: usize, attention: AttentionId },
    /// Lets rows see the last positions of all whole groups in the next [`AttendPart`](Self::AttendPart).
    SelectEnds { positions: usize },
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
    Select { q: Buffer, weights: Option<Buffer>, index: IndexId, candidates: Candidates },
    /// `out = norm(x)`, stream by stream.
    StreamNorm { x: Buffer, norm: Gain, streams: usize, out: Buffer },
    /// `x = silu(scale x)`.
    ScaledSilu { x: Buffer, scale: f32 },
    /// `out[t]` = the mean over streams of `sigmoid(gate) x`.
    GatedMean { x: Buffer, gate: Buffer, streams: usize, out: Buffer },
    /// `x[t][s] += 2 sigmoid(weights[t][s] / streams) y[t]`.
    Inject { y: Buffer, weights: Buffer, streams: usize, x: Buffer },
    /// Logits of hyper-connections into weights, and what those in `from` read of `x`; the new ones, if there are none.
    HyperRead { x: Buffer, weights: Buffer, from: Option<Buffer>, hyper: Hyper, out: Buffer },
    /// What weights that are there already read of `x`.
    HyperLast { x: Buffer, weights: Buffer, streams: usize, out: Buffer },
    /// `x[t][j] = write[j] y[t] + sum over i of mix[i][j] x[t][i]`.
    HyperWrite { y: Buffer, weights: Buffer, hyper: Hyper, x: Buffer },
    /// `out[t]` = the mean of the streams of `x[t]`, from column `first` on.
    StreamMean { x: Buffer, streams: usize, out: Buffer, first: usize },
    /// `out[t]` = rows of a table by hashes of token `t` and those before, side by side.
    Ngrams { ngrams: NgramId, out: Buffer },
    /// What keys and values from those rows add to the streams of `x`.
    NgramMix { ngrams: NgramId, key: Buffer, value: Buffer, x: Buffer },
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
            Self::StreamNorm { .. } | Self::ScaledSilu { .. } | Self::GatedMean { .. } => {
                "residual streams behind gates in another order"
            }
            Self::HyperRead { .. } => "hyper-connections in another order",
            _ => "a part of this model",
        }
    }

    /// Whether it is one of several that read residual streams together.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_of_reading(&self) -> bool {
        let gated =
            matches!(self, Self::StreamNorm { .. } | Self::ScaledSilu { .. } | Self::GatedMean { .. });
        gated || matches!(self, Self::HyperRead { .. })
    }
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
    pub(crate) groups: Vec<Group>,
    pub(crate) ngrams: Vec<NgramLayer>,
    /// Where the logits of the output rows end up.
    pub(crate) logits: Buffer,
    pub(crate) hidden: Hidden,
    pub(crate) draft: Option<Draft>,
}

/// What guesses tokens.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// What every step does for guesses to come, ascending: keys and values of all rows, and the last row for the state.
    pub(crate) follow: Vec<Insert>,
    /// A pass that guesses a token for each sequence. The last are the logits.
    pub(crate) ops: Vec<Op>,
    /// The first of them in a pass that goes on from the one before: what comes before is there already.
    pub(crate) again: usize,
    /// Width of the row in the state.
    pub(crate) carried: usize,
}

/// Ops that belong into a program before its op `at`.
#[derive(Debug, Clone)]
pub(crate) struct Insert {
    pub(crate) at: usize,
    pub(crate) ops: Vec<Op>,
}

impl Draft {
    /// The ops of a pass.
    pub(crate) fn pass(&self, goes_on: bool) -> &[Op] {
        &self.ops[if goes_on { self.again } else { 0 }..]
    }
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
                | Op::SharedAppend { .. }
                | Op::Attend { .. }
                | Op::AttendPart { .. }
                | Op::Blend { .. }
                | Op::TurnBack { .. }
                | Op::Summarise { .. }
                | Op::SummaryAppend { .. }
                | Op::SelectEnds { .. }
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
                | Op::HyperLast { .. }
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
        let follow = self.draft.as_ref().map_or([].as_slice(), |draft| &draft.follow);
        let (mut from, last) = (0, follow.last().map_or(0, |insert| insert.at));
        let before = follow.iter().flat_map(move |insert| {
            let own = &self.ops[from..insert.at];
            from = insert.at;
            own.iter().chain(&insert.ops)
        });
        before.chain(&self.ops[last..])
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
        for op in draft.follow.iter().flat_map(|insert| &insert.ops) {
            // Its attention layers are the last, as are their indexes.
            match op {
                Op::RopeAppend { attention, .. }
                | Op::LatentAppend { attention, .. }
                | Op::SummaryAppend { attention, .. } => {
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
        deltas + self.ngrams.iter().map(NgramLayer::state_len).sum::<usize>() + carried
    }

    /// The same in bytes.
    pub(crate) fn state_bytes(&self) -> Bytes {
        Bytes::of(self.state_len(), size_of::<f32>())
    }

    /// Bytes of a page of keys and values of all attention layers, of their indexes and of groups that are open.
    pub(crate) fn page_bytes(&self, kv: KvType) -> Result<Bytes, KernelError> {
        let caches = self.attentions.iter().map(|attention| {
            let shape = attention.cache_shape(kv)?;
            Ok(Bytes::of(1, shape.key_page_bytes() + shape.value_page_bytes()))
        });
        let indexes =
            self.indexes.iter().map(|index| Ok(Bytes::of(index.shape()?.page_len(), size_of::<f32>())));
        let groups =
            self.groups.iter().map(|group| Ok(Bytes::of(group.shape()?.page_len(), size_of::<f32>())));
        caches.chain(indexes).chain(groups).sum()
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
