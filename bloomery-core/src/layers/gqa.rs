//! Grouped-query attention: norm and projections, rotary embedding and append, attention, output projection.

use super::{Builder, Scope, index};
use crate::def::{Gqa, Pooling};
use crate::error::LoadError;
use crate::program::{Attention, AttentionId, Buffer, Gain, Op, Projection, Rows};
use crate::weights::MatrixId;

/// Emits the mixer and returns the residual to go on with.
pub(super) fn emit(
    builder: &mut Builder<'_>,
    scope: &Scope,
    gqa: &Gqa,
    norm: Option<Gain>,
    x: Buffer,
) -> Result<Buffer, LoadError> {
    let heads = append(builder, scope, gqa, norm, x)?;
    attend(builder, scope, gqa, heads, x)
}

/// Queries of all rows, whose keys and values are in the cache.
#[derive(Debug)]
pub(super) struct Heads {
    q: Buffer,
    gate: Option<Buffer>,
    attention: AttentionId,
    /// The choice of positions before attention.
    select: Option<Op>,
}

/// Norm and projections, rotary embedding and append.
pub(super) fn append(
    builder: &mut Builder<'_>,
    scope: &Scope,
    gqa: &Gqa,
    norm: Option<Gain>,
    x: Buffer,
) -> Result<Heads, LoadError> {
    let (q_len, kv_len) = (gqa.heads * gqa.head_dim, gqa.kv_heads * gqa.head_dim);
    let q = builder.buffer("q", q_len, Rows::All);
    let gate = gqa.gate.then(|| builder.buffer("gate", q_len, Rows::All));
    let k = builder.buffer("k", kv_len, Rows::All);
    let v = builder.buffer("v", kv_len, Rows::All);
    let parts = projections(builder, scope, gqa, (q, gate, [k, v]))?;
    builder.push(Op::Project { x, norm, parts });

    let factors = match gqa.rope.factors && builder.bind.has("rope_freqs.weight") {
        true => Some(builder.bind.vector("rope_freqs.weight", gqa.rope.dims / 2)?),
        false => None,
    };
    let (q_norm, k_norm) = match gqa.qk_norm {
        Some(norm) => (
            Some(builder.gain(&scope.tensor("attn_q_norm.weight"), norm, gqa.head_dim)?),
            Some(builder.gain(&scope.tensor("attn_k_norm.weight"), norm, gqa.head_dim)?),
        ),
        None => (None, None),
    };
    let (index, select) = match &gqa.index {
        None => (None, None),
        Some(index) => {
            let Pooling::Mean { norm: of_keys } = index.pooling else {
                return Err(index::unsupported(scope, index, "means of keys"));
            };
            let (index, select) = index::mean(builder, scope, index, (of_keys, &gqa.rope), (x, norm))?;
            (Some(index), Some(select))
        }
    };
    let attention = builder.attention(Attention {
        heads: gqa.heads,
        kv_heads: gqa.kv_heads,
        key_dim: gqa.head_dim,
        value_dim: gqa.head_dim,
        scale: gqa.scale,
        window: gqa.window,
        rope: gqa.rope.clone(),
        rope_first: 0,
        q_norm,
        k_norm,
        factors,
        sinks: None,
        index,
        is_masked: index.is_some(),
        whole: false,
    });
    builder.push(Op::RopeAppend { q, k, v, attention });
    Ok(Heads { q, gate, attention, select })
}

/// Attention and output projection.
pub(super) fn attend(
    builder: &mut Builder<'_>,
    scope: &Scope,
    gqa: &Gqa,
    Heads { q, gate, attention, select }: Heads,
    x: Buffer,
) -> Result<Buffer, LoadError> {
    let out = builder.buffer("attention", q.cols, Rows::All);
    select.into_iter().for_each(|op| builder.push(op));
    builder.push(Op::Attend { q, attention, out });
    if let Some(gate) = gate {
        builder.push(Op::Gate { x: out, gate });
    }
    let weight = builder.bind.matrix(&scope.tensor("attn_output.weight"), scope.hidden, q.cols)?;
    let bias = builder.bind.bias(gqa.out_bias, &scope.tensor("attn_output.bias"), scope.hidden)?;
    builder.mixed(scope, (out, "attention"), (weight, bias), x)
}

/// Three matrices, or one whose rows are q, then k, then v. The rows of a head's gate follow those of its query.
fn projections(
    builder: &mut Builder<'_>,
    scope: &Scope,
    gqa: &Gqa,
    (q, gate, kv): (Buffer, Option<Buffer>, [Buffer; 2]),
) -> Result<Vec<Projection>, LoadError> {
    let merged = scope.tensor("attn_qkv.weight");
    let is_merged = builder.bind.has(&merged);
    let q_rows = q.cols * if gate.is_some() { 2 } else { 1 };
    let all = q_rows + kv[0].cols + kv[1].cols;
    let mut first = 0;
    let mut parts = Vec::with_capacity(4);
    for (out, name) in [(q, "attn_q"), (kv[0], "attn_k"), (kv[1], "attn_v")] {
        let separate = scope.tensor(&format!("{name}.weight"));
        let own = if name == "attn_q" { q_rows } else { out.cols };
        let (tensor, rows, base) = if is_merged { (&merged, all, first) } else { (&separate, own, 0) };
        first += own;
        let bias = builder.bind.bias(gqa.qkv_bias, &scope.tensor(&format!("{name}.bias")), out.cols)?;
        let mut push =
            |weight: MatrixId, out| parts.push(Projection { weight, bias, out, accumulate: false });
        match gate.filter(|_| name == "attn_q") {
            None => push(builder.bind.matrix_rows(tensor, rows, scope.hidden, base, out.cols)?, out),
            Some(gate) => {
                let (shape, heads) = ((rows, scope.hidden), (gqa.heads, gqa.head_dim));
                push(builder.bind.matrix_halves(tensor, shape, base, heads, false)?, out);
                push(builder.bind.matrix_halves(tensor, shape, base, heads, true)?, gate);
            }
        }
    }
    Ok(parts)
}
