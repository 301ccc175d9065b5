//! Latent attention in its absorbed form: queries become products with latents, so that all heads share one short key.

use super::{Builder, Scope, index};
use crate::def::{Mla, Pooling};
use crate::error::LoadError;
use crate::program::{Attention, AttentionId, Buffer, Gain, Op, Projection, Rows};
use crate::weights::{HeadRows, HeadsId};

/// Emits the mixer and returns the residual to go on with.
pub(super) fn emit(
    builder: &mut Builder<'_>,
    scope: &Scope,
    mla: &Mla,
    norm: Option<Gain>,
    x: Buffer,
) -> Result<Buffer, LoadError> {
    let latents = append(builder, scope, mla, norm, x)?;
    attend(builder, scope, mla, latents, x)
}

/// Absorbed queries of all rows, whose latents are in the cache.
#[derive(Debug)]
pub(super) struct Latents {
    q: Buffer,
    values: HeadsId,
    attention: AttentionId,
    /// The choice of positions before attention.
    select: Option<Op>,
}

/// Norm and projections, rotary embedding and append.
pub(super) fn append(
    builder: &mut Builder<'_>,
    scope: &Scope,
    mla: &Mla,
    norm: Option<Gain>,
    x: Buffer,
) -> Result<Latents, LoadError> {
    let Mla { heads, nope, latent, .. } = *mla;
    let (turning, key_dim) = (mla.rope.dims, latent + mla.rope.dims);
    let q = builder.buffer("q", heads * (nope + turning), Rows::All);
    let kv = builder.buffer("kv", key_dim, Rows::All);
    let latent_row = project(builder, scope, mla, norm, (x, q, kv))?;
    let (index, select) = match (&mla.index, latent_row) {
        (None, _) => (None, None),
        (Some(index), Some(latent_row)) => {
            let Pooling::Softmax { eps } = index.pooling else {
                return Err(index::unsupported(scope, index, "keys that gates weigh"));
            };
            let (index, select) = index::weighed(builder, scope, index, eps, (x, norm), latent_row)?;
            (Some(index), Some(select))
        }
        (Some(_), None) => return Err(LoadError::MissingTensor { name: scope.tensor("attn_q_a.weight") }),
    };
    let (keys, values) = halves(builder, scope, mla)?;
    let absorbed = builder.buffer("absorbed", heads * key_dim, Rows::All);
    builder.push(Op::Absorb { q, keys, out: absorbed });
    let attention = builder.attention(Attention {
        heads,
        kv_heads: 1,
        key_dim,
        value_dim: latent,
        scale: mla.scale,
        window: None,
        rope: mla.rope.clone(),
        rope_first: latent,
        q_norm: None,
        k_norm: None,
        factors: None,
        sinks: None,
        index,
        is_masked: index.is_some(),
        whole: false,
    });
    let norm = builder.gain(&scope.tensor("attn_kv_a_norm.weight"), mla.norm, latent)?;
    builder.push(Op::LatentAppend { q: absorbed, kv, norm, attention });
    Ok(Latents { q: absorbed, values, attention, select })
}

/// Attention and output projection.
pub(super) fn attend(
    builder: &mut Builder<'_>,
    scope: &Scope,
    mla: &Mla,
    Latents { q, values, attention, select }: Latents,
    x: Buffer,
) -> Result<Buffer, LoadError> {
    let Mla { heads, latent, value, .. } = *mla;
    let weighted = builder.buffer("weighted", heads * latent, Rows::All);
    select.into_iter().for_each(|op| builder.push(op));
    builder.push(Op::Attend { q, attention, out: weighted });
    let out = builder.buffer("attention", heads * value, Rows::All);
    builder.push(Op::PerHead { x: weighted, weights: values, out });
    let weight = builder.bind.matrix(&scope.tensor("attn_output.weight"), scope.hidden, heads * value)?;
    builder.mixed(scope, (out, "attention"), (weight, None), x)
}

/// Queries, by way of a latent of their own where they have one, which is returned with its norm, and the row of latent and
/// turning key.
fn project(
    builder: &mut Builder<'_>,
    scope: &Scope,
    mla: &Mla,
    norm: Option<Gain>,
    (x, q, kv): (Buffer, Buffer, Buffer),
) -> Result<Option<(Buffer, Gain)>, LoadError> {
    let has_latent = builder.bind.has(&scope.tensor("attn_q_a.weight"));
    let mut part = |name: &str, cols, out: Buffer| {
        let weight = builder.bind.matrix(&scope.tensor(name), out.cols, cols)?;
        Ok::<_, LoadError>(Projection { weight, bias: None, out, accumulate: false })
    };
    let kv = part("attn_kv_a_mqa.weight", scope.hidden, kv)?;
    // V2-Lite's files may name a rank that the model does not have: the tensors tell.
    let Some(width) = mla.q_latent.filter(|_| has_latent) else {
        let q = part("attn_q.weight", scope.hidden, q)?;
        builder.push(Op::Project { x, norm, parts: vec![q, kv] });
        return Ok(None);
    };
    let second = part("attn_q_b.weight", width, q)?;
    let q_latent = builder.buffer("q latent", width, Rows::All);
    let weight = builder.bind.matrix(&scope.tensor("attn_q_a.weight"), width, scope.hidden)?;
    let first = Projection { weight, bias: None, out: q_latent, accumulate: false };
    builder.push(Op::Project { x, norm, parts: vec![first, kv] });
    let norm = builder.gain(&scope.tensor("attn_q_a_norm.weight"), mla.norm, width)?;
    builder.push(Op::Project { x: q_latent, norm: Some(norm), parts: vec![second] });
    Ok(Some((q_latent, norm)))
}

/// Of every head what makes keys of a latent, turned round, and what makes values: two tensors, or one that has the rows of a
/// head's key and then those of its value.
fn halves(builder: &mut Builder<'_>, scope: &Scope, mla: &Mla) -> Result<(HeadsId, HeadsId), LoadError> {
    let Mla { heads: count, nope, latent, value, .. } = *mla;
    let merged = scope.tensor("attn_kv_b.weight");
    if builder.bind.has(&merged) {
        let stride = nope + value;
        let keys = HeadRows { count, stride, first: 0, rows: nope, cols: latent };
        let values = HeadRows { first: nope, rows: value, ..keys };
        return Ok((builder.bind.heads(&merged, keys, true)?, builder.bind.heads(&merged, values, false)?));
    }
    let keys = HeadRows { count, stride: latent, first: 0, rows: latent, cols: nope };
    let values = HeadRows { count, stride: value, first: 0, rows: value, cols: latent };
    let keys = builder.bind.heads(&scope.tensor("attn_k_b.weight"), keys, false)?;
    Ok((keys, builder.bind.heads(&scope.tensor("attn_v_b.weight"), values, false)?))
}
