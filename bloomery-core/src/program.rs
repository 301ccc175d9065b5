//! A model as a straight list of fused ops over a few buffers: what every backend runs.
//!
//! The list is made once, when the plan is made; a step of T rows runs it from front to back. An op is as much work
//! as one kernel of a card can do: six a layer for a mixture-of-experts decoder.

use bloomery_kernels::cpu::{KernelError, KvShape, KvType};

use crate::def::{Act, Gqa, Norm, Router};
use crate::units::Bytes;
use crate::weights::{MatrixId, StackId, VectorId, Weights};

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

/// An attention layer: its definition and the vectors its heads need.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attention {
    pub(crate) gqa: Gqa,
    pub(crate) q_norm: Option<Gain>,
    pub(crate) k_norm: Option<Gain>,
    pub(crate) factors: Option<VectorId>,
}

impl Attention {
    /// The cache this layer needs.
    pub(crate) fn cache_shape(&self, kv: KvType) -> Result<KvShape, KernelError> {
        KvShape::new(self.gqa.kv_heads, (self.gqa.head_dim, kv), (self.gqa.head_dim, kv))
    }
}

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
}

/// One fused op. Buffers are read and written row by row; `x` and `out` of one op never overlap except where named.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    /// `out[t] = table[token[t]]`.
    Embed { table: MatrixId, out: Buffer },
    /// `out_p[t] (+)= W_p norm(x[t]) + b_p` for every part.
    Project { x: Buffer, norm: Option<Gain>, parts: Vec<Projection> },
    /// Head norms and rotary embedding of `q` and `k` in place, then `k` and `v` into the cache.
    RopeAppend { q: Buffer, k: Buffer, v: Buffer, attention: AttentionId },
    /// Causal attention of every row over its sequence's cache.
    Attend { q: Buffer, attention: AttentionId, out: Buffer },
    /// `to` = the rows of `from` whose logits are wanted.
    Take { from: Buffer, to: Buffer },
    /// `out = norm(x)`.
    Norm { x: Buffer, norm: Gain, out: Buffer },
    /// `normed = norm(x)`, and the experts of every row by its router logits.
    Route { x: Buffer, norm: Gain, normed: Buffer, router: MatrixId, spec: Router, used: usize },
    /// `out[t] += sum over the row's experts`.
    Experts { normed: Buffer, experts: ExpertStacks, out: Buffer },
    /// `out[t] += down(act(gate n) * (up n))`, `n = normed[t]`.
    Gated { normed: Buffer, gated: Gated, out: Buffer },
}

/// A model, ready for a backend.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    /// Every buffer, by index.
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) attentions: Vec<Attention>,
    /// Where the logits of the output rows end up.
    pub(crate) logits: Buffer,
    pub(crate) hidden: Hidden,
}

/// How hidden states come out in place of logits.
#[derive(Debug)]
pub(crate) struct Hidden {
    /// Takes the place of the last op.
    pub(crate) op: Op,
    pub(crate) buffer: Buffer,
}

impl Program {
    /// Bytes of weights that a step of one row reads: matrices once, and of every stack the experts in use.
    pub(crate) fn bytes_per_token(&self, weights: &Weights) -> Bytes {
        let mut used_now = 0;
        let mut total = Bytes::default();
        for op in &self.ops {
            match op {
                Op::Embed { .. }
                | Op::RopeAppend { .. }
                | Op::Attend { .. }
                | Op::Take { .. }
                | Op::Norm { .. } => {}
                Op::Project { parts, .. } => {
                    total += parts.iter().map(|part| weights.matrix_bytes(part.weight)).sum::<Bytes>();
                }
                Op::Route { router, used, .. } => {
                    total += weights.matrix_bytes(*router);
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

    /// Values of a recurrent state over all layers.
    pub(crate) fn state_len(&self) -> usize {
        0
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
