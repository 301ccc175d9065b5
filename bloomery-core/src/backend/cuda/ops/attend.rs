//! Attention over the caches.

use bloomery_kernels::cpu::KvType;
use bloomery_kernels::cuda::{Attend, AttendScratch, CudaError, KvCache, KvRows, Launch, Sight, Span};

use super::index;
use crate::backend::cuda::frame::Frame;
use crate::program::{Attention, AttentionId, Buffer};

/// Query heads of a KV head that a tile has room for; the widest heads have no tiles.
const MOST_GROUP: usize = 64;
/// The widest heads that have.
const TILED: usize = 256;

/// The cache of a layer.
pub(in crate::backend::cuda) fn shape(attention: &Attention, kv: KvType) -> Result<KvCache, CudaError> {
    KvCache::new(attention.kv_heads, attention.key_dim, attention.value_dim, kv)
}

/// Why there is no kernel for a layer, if there is none.
pub(in crate::backend::cuda) fn unsupported(attention: &Attention, kv: KvType) -> Option<String> {
    let group = attention.heads / attention.kv_heads;
    let too_many = group > MOST_GROUP && attention.key_dim.max(attention.value_dim) <= TILED;
    let why = || format!("{group} query heads of a KV head are more than {MOST_GROUP}");
    let checked = shape(attention, kv).and_then(|shape| match (attention.index, attention.sinks) {
        (Some(_), _) => Attend::check_chosen(&shape),
        (None, Some(_)) => Attend::check_sums(&shape),
        (None, None) => Ok(()),
    });
    checked.err().map(|error| error.to_string()).or_else(|| too_many.then(why))
}

/// Floats and tickets that steps of `rows` rows work with.
pub(in crate::backend::cuda) fn scratch_len(
    attention: &Attention,
    kv: KvType,
    rows: usize,
) -> (usize, usize) {
    let heads = attention.heads;
    shape(attention, kv).map_or((0, 0), |shape| {
        (AttendScratch::floats(&shape, heads, rows), AttendScratch::tickets(&shape, heads, rows))
    })
}

/// The cache, and where the rows of the step are in it.
pub(super) fn cache(frame: &Frame<'_>, id: AttentionId) -> Result<KvRows, CudaError> {
    let layer = &frame.caches.layers[id.0];
    let [keys, values] = layer.memory();
    let inputs = frame.inputs;
    Ok(KvRows {
        shape: layer.shape,
        keys,
        values,
        table: inputs.pages()?,
        stride: inputs.stride(),
        positions: inputs.positions(frame.rows)?,
        sequences: inputs.sequences(frame.rows)?,
    })
}

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    q: Buffer,
    id: AttentionId,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let sight = match frame.model.attention(id).index {
        Some(index) => Sight::Chosen(index::chosen(frame, index)?),
        None => Sight::All,
    };
    part(frame, (q, id), sight, (frame.span(out)?, None))?.launches(frame.info)
}

/// Attention to a part of what rows see, or to all of it: values, and sums if there is more.
pub(super) fn part(
    frame: &Frame<'_>,
    (q, id): (Buffer, AttentionId),
    sight: Sight,
    (out, sums): (Span<f32>, Option<Span<f32>>),
) -> Result<Attend, CudaError> {
    let (attention, memory) = (frame.model.attention(id), frame.memory);
    let mut cache = cache(frame, id)?;
    if attention.whole {
        cache.positions = frame.inputs.ends(frame.rows)?;
    }
    Ok(Attend {
        q: frame.span(q)?,
        cache,
        out,
        rows: frame.rows,
        heads: attention.heads,
        scale: attention.scale,
        window: attention.window,
        sight,
        sums,
        scratch: AttendScratch { partials: memory.partials.span(), tickets: memory.tickets.span() },
        tiles: frame.inputs.tiles(id)?,
    })
}
