//! Grouped-query attention: norm and projections, rotary embedding and append, attention, output projection.

use super::{Builder, Scope};
use crate::def::Gqa;
use crate::error::LoadError;
use crate::program::{Attention, Buffer, Gain, Op, Projection, Rows};

/// Emits the mixer and returns the residual to go on with.
pub(super) fn emit(
    builder: &mut Builder<'_>,
    scope: &Scope,
    gqa: &Gqa,
    norm: Gain,
    x: Buffer,
) -> Result<Buffer, LoadError> {
    let (q_len, kv_len) = (gqa.heads * gqa.head_dim, gqa.kv_heads * gqa.head_dim);
    let q = builder.buffer("q", q_len, Rows::All);
    let k = builder.buffer("k", kv_len, Rows::All);
    let v = builder.buffer("v", kv_len, Rows::All);
    let parts = projections(builder, scope, gqa, [q, k, v])?;
    builder.push(Op::Project { x, norm: Some(norm), parts });

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
    let attention = builder.attention(Attention { gqa: gqa.clone(), q_norm, k_norm, factors });
    builder.push(Op::RopeAppend { q, k, v, attention });
    let mut out = builder.buffer("attention", q_len, Rows::All);
    builder.push(Op::Attend { q, attention, out });

    let mut x = x;
    if scope.last {
        out = builder.take(out, "attention");
        x = builder.take(x, "x");
    }
    let weight = builder.bind.matrix(&scope.tensor("attn_output.weight"), scope.hidden, q_len)?;
    let bias = builder.bind.bias(gqa.out_bias, &scope.tensor("attn_output.bias"), scope.hidden)?;
    let part = Projection { weight, bias, out: x, accumulate: true };
    builder.push(Op::Project { x: out, norm: None, parts: vec![part] });
    Ok(x)
}

/// Three matrices, or one whose rows are q, then k, then v.
fn projections(
    builder: &mut Builder<'_>,
    scope: &Scope,
    gqa: &Gqa,
    outs: [Buffer; 3],
) -> Result<Vec<Projection>, LoadError> {
    let merged = scope.tensor("attn_qkv.weight");
    let all: usize = outs.iter().map(|out| out.cols).sum();
    let mut first = 0;
    let mut parts = Vec::with_capacity(3);
    for (out, name) in outs.into_iter().zip(["attn_q", "attn_k", "attn_v"]) {
        let weight = match builder.bind.has(&merged) {
            true => builder.bind.matrix_rows(&merged, all, scope.hidden, first, out.cols)?,
            false => builder.bind.matrix(&scope.tensor(&format!("{name}.weight")), out.cols, scope.hidden)?,
        };
        first += out.cols;
        let bias = builder.bind.bias(gqa.qkv_bias, &scope.tensor(&format!("{name}.bias")), out.cols)?;
        parts.push(Projection { weight, bias, out, accumulate: false });
    }
    Ok(parts)
}
