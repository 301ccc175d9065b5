//! Rotary embedding of queries' tails, and the append of latents to the cache.

use bloomery_kernels::cuda::{AbsorbAppend, CudaError, LatentAppend, Launch};

use super::attend::cache;
use super::per_head;
use crate::backend::cuda::frame::Frame;
use crate::program::{AttentionId, Buffer, Gain};
use crate::weights::HeadsId;

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    [q, kv]: [Buffer; 2],
    norm: Gain,
    id: AttentionId,
) -> Result<Vec<Launch>, CudaError> {
    Ok(vec![append(frame, [q, kv], norm, id)?.launch(frame.info)?])
}

/// The same with the products of queries before it, at once.
pub(in crate::backend::cuda) fn absorbing(
    frame: &Frame<'_>,
    (q, keys): (Buffer, HeadsId),
    [absorbed, kv]: [Buffer; 2],
    norm: Gain,
    id: AttentionId,
) -> Result<Vec<Launch>, CudaError> {
    let products = per_head::products(frame, q, keys, absorbed)?;
    let append = append(frame, [absorbed, kv], norm, id)?;
    Ok(vec![AbsorbAppend { products, append }.launch(frame.info)?])
}

fn append(
    frame: &Frame<'_>,
    [q, kv]: [Buffer; 2],
    norm: Gain,
    id: AttentionId,
) -> Result<LatentAppend, CudaError> {
    Ok(LatentAppend {
        q: frame.span(q)?,
        kv: frame.span(kv)?,
        rows: frame.rows,
        heads: frame.model.attention(id).heads,
        norm: frame.model.norm(norm),
        rope: Some(frame.model.rope(id).clone()),
        cache: cache(frame, id)?,
    })
}
