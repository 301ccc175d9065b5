//! Head norms, rotary embedding and the append to the cache.

use bloomery_kernels::cuda::{CudaError, Launch, RopeAppend};

use super::attend::cache;
use crate::backend::cuda::frame::Frame;
use crate::program::{Attention, AttentionId, Buffer};

/// Values of a head that the kernel takes, and of what turns.
const MOST: usize = 256;

/// Why there is no kernel for a layer's heads, if there is none.
pub(in crate::backend::cuda) fn unsupported(attention: &Attention) -> Option<String> {
    let widest = attention.key_dim.max(attention.value_dim);
    (widest > MOST).then(|| format!("heads of {widest} values are wider than {MOST}"))
}

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
