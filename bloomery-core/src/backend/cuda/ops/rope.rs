//! Head norms, rotary embedding and the append to the cache.

use bloomery_kernels::cuda::{CudaError, Launch, RopeAppend};

use super::attend::cache;
use crate::backend::cuda::frame::Frame;
use crate::program::{AttentionId, Buffer};

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    [q, k, v]: [Buffer; 3],
    id: AttentionId,
) -> Result<Vec<Launch>, CudaError> {
    let attention = frame.model.attention(id);
    let append = RopeAppend {
        q: frame.span(q)?,
        k: frame.span(k)?,
        v: frame.span(v)?,
        rows: frame.rows,
        heads: attention.heads,
        q_norm: attention.q_norm.map(|norm| frame.model.norm(norm)),
        k_norm: attention.k_norm.map(|norm| frame.model.norm(norm)),
        rope: Some(frame.model.rope(id).clone()),
        cache: cache(frame, id)?,
    };
    Ok(vec![append.launch(frame.info)?])
}
