//! Indexes over blocks of positions: keys into them, and the choice for attention.

use super::{Builder, Scope};
use crate::def::{self, Norm, Rope};
use crate::error::LoadError;
use crate::program::{Buffer, Candidates, Gain, Index, IndexId, Op, Pooling, Projection, Rows};

/// The index of keys whose mean is a block's, and the choice from it, which belongs before attention.
pub(super) fn mean(
    builder: &mut Builder<'_>,
    scope: &Scope,
    index: &def::Index,
    (norm, rope): (Norm, &Rope),
    (x, x_norm): (Buffer, Option<Gain>),
) -> Result<(IndexId, Op), LoadError> {
    let q_norm = builder.gain(&scope.tensor("indexer.q_norm.weight"), norm, index.width)?;
    let k_norm = builder.gain(&scope.tensor("indexer.k_norm.weight"), norm, index.width)?;
    let pooling = Pooling::Mean { q_norm, k_norm, rope: rope.clone() };
    let q = builder.buffer("index queries", index.heads * index.width, Rows::All);
    let keys = builder.buffer("index keys", index.width, Rows::All);
    let mut parts = Vec::with_capacity(2);
    for (out, name) in [(q, "indexer.q_proj.weight"), (keys, "indexer.k_proj.weight")] {
        let weight = builder.bind.matrix(&scope.tensor(name), out.cols, scope.hidden)?;
        parts.push(Projection { weight, bias: None, out, accumulate: false });
    }
    builder.push(Op::Project { x, norm: x_norm, parts });
    let id = add(builder, scope, index, pooling)?;
    builder.push(Op::IndexAppend { keys, gates: None, index: id });
    Ok((id, Op::Select { q, weights: None, index: id, candidates: Candidates::None }))
}

/// As [`mean`], of keys that gates weigh. Queries are products of `latent`.
pub(super) fn weighed(
    builder: &mut Builder<'_>,
    scope: &Scope,
    index: &def::Index,
    eps: f32,
    (x, x_norm): (Buffer, Option<Gain>),
    (latent, latent_norm): (Buffer, Gain),
) -> Result<(IndexId, Op), LoadError> {
    let width = index.width;
    let gain = builder.bind.vector(&scope.tensor("indexer.k_norm.weight"), width)?;
    let shift = builder.bind.vector(&scope.tensor("indexer.k_norm.bias"), width)?;
    let named = |builder: &Builder<'_>, names: [&str; 2]| {
        let [first, second] = names.map(|name| scope.tensor(name));
        if builder.bind.has(&second) { second } else { first }
    };
    let name = named(builder, ["indexer_compressor_ape.weight", "indexer.kpool_ape.weight"]);
    let bias = builder.bind.values(&name, &[width, index.block])?;
    let pooling = Pooling::Softmax { norm: (gain, shift, eps), bias };
    let q = builder.buffer("index queries", index.heads * width, Rows::All);
    let keys = builder.buffer("index keys", width, Rows::All);
    let gates = builder.buffer("index gates", width, Rows::All);
    let weights = builder.buffer("index weights", index.heads, Rows::All);
    let gate_name = named(builder, ["indexer_compressor_gate.weight", "indexer.kpool_gate.weight"]);
    let mut parts = Vec::with_capacity(3);
    for (out, name) in [
        (keys, scope.tensor("indexer.attn_k.weight")),
        (gates, gate_name),
        (weights, scope.tensor("indexer.proj.weight")),
    ] {
        let weight = builder.bind.matrix(&name, out.cols, scope.hidden)?;
        parts.push(Projection { weight, bias: None, out, accumulate: false });
    }
    builder.push(Op::Project { x, norm: x_norm, parts });
    let weight = builder.bind.matrix(&scope.tensor("indexer.attn_q_b.weight"), q.cols, latent.cols)?;
    let part = Projection { weight, bias: None, out: q, accumulate: false };
    builder.push(Op::Project { x: latent, norm: Some(latent_norm), parts: vec![part] });
    let id = add(builder, scope, index, pooling)?;
    builder.push(Op::IndexAppend { keys, gates: Some(gates), index: id });
    Ok((id, Op::Select { q, weights: Some(weights), index: id, candidates: Candidates::None }))
}

/// The refusal of a pooling that does not go with the attention.
pub(super) fn unsupported(scope: &Scope, index: &def::Index, supported: &'static str) -> LoadError {
    let (key, value) = (scope.tensor("indexer"), format!("{:?}", index.pooling));
    LoadError::UnsupportedConfig { key, value, supported }
}

fn add(
    builder: &mut Builder<'_>,
    scope: &Scope,
    index: &def::Index,
    pooling: Pooling,
) -> Result<IndexId, LoadError> {
    let def::Index { heads, width, block, keep, .. } = *index;
    checked(builder, scope, Index { heads, width, block, keep, pooling })
}

/// An index of a shape that there are kernels for.
pub(super) fn checked(builder: &mut Builder<'_>, scope: &Scope, index: Index) -> Result<IndexId, LoadError> {
    let Index { width, block, .. } = index;
    index.shape().map_err(|_| LoadError::UnsupportedConfig {
        key: scope.tensor("indexer"),
        value: format!("{width} values, blocks of {block} positions"),
        supported: "a multiple of 16 values, blocks that divide 64 positions",
    })?;
    Ok(builder.index(index))
}
