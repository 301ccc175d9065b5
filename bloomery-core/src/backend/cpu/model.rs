//! What steps only read.

use std::sync::Arc;

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::{
    Delta, DeltaGate, DeltaShape, DeltaWeights, KernelError, Matrix, Norm, RopeSpec, Stack,
};

use super::heads::HeadMatrices;
use crate::backend::rope::rope_spec;
use crate::backend::tables::Tables;
use crate::def::{Decay, OutGate};
use crate::error::LoadError;
use crate::plan::Plan;
use crate::program::{self, Attention, AttentionId, Gain, IndexId, NgramLayer, Pooling, Program};
use crate::weights::{HeadsId, MatrixId, NumbersId, StackId, VectorId, Weights};

pub(super) struct Model {
    gguf: Arc<Gguf>,
    pub(super) program: Program,
    weights: Weights,
    vectors: Vec<Vec<f32>>,
    heads: Vec<HeadMatrices>,
    pub(super) deltas: Vec<Delta>,
    /// All different rotations.
    pub(super) ropes: Vec<RopeSpec>,
    /// The rotation of every attention layer.
    rope_of: Vec<usize>,
    /// The rotation of every index that has one.
    pub(super) index_rope_of: Vec<usize>,
    /// `[taps][channels]`: the convolutions over n-grams.
    pub(super) ngram_taps: Vec<Vec<f32>>,
}

impl Model {
    pub(super) fn new(plan: Plan) -> Result<Self, LoadError> {
        let Plan { gguf, program, mut weights, numerics, .. } = plan;
        weights.join(&gguf);
        let vectors: Vec<Vec<f32>> =
            weights.vector_ids().map(|id| weights.vector(&gguf, id)).collect::<Result<_, _>>()?;
        let heads = weights
            .heads_ids()
            .map(|id| HeadMatrices::new(&weights, &gguf, id, numerics))
            .collect::<Result<_, _>>()?;
        let deltas = program.deltas.iter().map(|delta| prepare(delta, &vectors)).collect::<Result<_, _>>()?;
        let mut ropes = Vec::new();
        let mut number = |spec: RopeSpec| {
            ropes.iter().position(|other| *other == spec).unwrap_or_else(|| {
                ropes.push(spec);
                ropes.len() - 1
            })
        };
        let of_attention = |attention: &Attention| {
            let factors = attention.factors.map_or_else(Vec::new, |id| vectors[id.index()].clone());
            rope_spec(&attention.rope, factors)
        };
        let rope_of = program.attentions.iter().map(|attention| number(of_attention(attention))).collect();
        let index_rope_of = program
            .indexes
            .iter()
            .map(|index| match &index.pooling {
                Pooling::Mean { rope, .. } | Pooling::Made { rope, .. } => {
                    number(rope_spec(rope, Vec::new()))
                }
                Pooling::Softmax { .. } => usize::MAX,
            })
            .collect();
        let by_tap = |layer: &NgramLayer| {
            let Some(conv) = layer.conv else { return Vec::new() };
            let (values, taps) = (&vectors[conv.weights.index()], conv.taps);
            (0..taps).flat_map(|tap| values.iter().skip(tap).step_by(taps).copied()).collect()
        };
        let ngram_taps = program.ngrams.iter().map(by_tap).collect();
        Ok(Self { gguf, program, weights, vectors, heads, deltas, ropes, rope_of, index_rope_of, ngram_taps })
    }

    /// The rotation of an index that has one.
    pub(super) fn index_rope(&self, id: IndexId) -> &RopeSpec {
        &self.ropes[self.index_rope_of[id.0]]
    }

    pub(super) fn matrix(&self, id: MatrixId) -> Result<Matrix<'_>, KernelError> {
        self.weights.matrix(&self.gguf, id)
    }

    pub(super) fn tables(&self) -> Tables {
        Tables::new(&self.program, &self.weights, &self.gguf)
    }

    pub(super) fn stack(&self, id: StackId) -> Result<Stack<'_>, KernelError> {
        self.weights.stack(&self.gguf, id)
    }

    pub(super) fn heads(&self, id: HeadsId) -> Result<Stack<'_>, KernelError> {
        self.heads[id.index()].stack()
    }

    pub(super) fn vector(&self, id: VectorId) -> &[f32] {
        &self.vectors[id.index()]
    }

    pub(super) fn numbers(&self, id: NumbersId) -> &[u32] {
        self.weights.numbers(id)
    }

    pub(super) fn norm(&self, gain: Gain) -> Norm<'_> {
        Norm { gain: self.vector(gain.gain), eps: gain.norm.eps }
    }

    pub(super) fn attention(&self, id: AttentionId) -> &Attention {
        &self.program.attentions[id.0]
    }

    /// Index of a layer's rotation.
    pub(super) fn rope(&self, id: AttentionId) -> usize {
        self.rope_of[id.0]
    }
}

/// A delta net with its weights.
fn prepare(delta: &program::Delta, vectors: &[Vec<f32>]) -> Result<Delta, KernelError> {
    let net = &delta.net;
    let vector = |id: VectorId| vectors[id.index()].as_slice();
    let shape = DeltaShape::new(net.key_heads, net.value_heads, net.head_dim, net.taps)?;
    let conv = delta.conv.iter().map(|&id| vector(id)).collect::<Vec<_>>().concat();
    let weights = DeltaWeights {
        conv: &conv,
        decay: vector(delta.decay),
        dt_bias: vector(delta.dt),
        norm: Norm { gain: vector(delta.norm.gain), eps: delta.norm.norm.eps },
        bound: match net.decay {
            Decay::Head => None,
            Decay::Channel { bound } => Some(bound),
        },
        gate: match net.gate {
            OutGate::Silu => DeltaGate::Silu,
            OutGate::Sigmoid => DeltaGate::Sigmoid,
        },
    };
    Delta::new(shape, &weights)
}
