//! Rotary embedding of queries' tails, and the append of latents to the cache.

use bloomery_kernels::cuda::{CudaError, LatentAppend, Launch};

use super::attend::cache;
use crate::backend::cuda::frame::Frame;
use crate::program::{AttentionId, Buffer, Gain};

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    [q, kv]: [Buffer; 2],
    norm: Gain,
    id: AttentionId,
) -> Result<Vec<Launch>, CudaError> {
    let append = LatentAppend {
        q: frame.span(q)?,
        kv: frame.span(kv)?,
        rows: frame.rows,
        heads: frame.model.attention(id).heads,
        norm: frame.model.norm(norm),
        rope: Some(frame.model.rope(id).clone()),
        cache: cache(frame, id)?,
    };
    Ok(vec![append.launch(frame.info)?])
}
