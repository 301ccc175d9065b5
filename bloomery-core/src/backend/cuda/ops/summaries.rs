//! Rows that stand for groups of positions.

use bloomery_kernels::cuda::{CudaError, GroupCache, GroupRows, Launch, Summarise, SummaryAppend};

use super::attend::cache;
use crate::backend::cuda::frame::Frame;
use crate::program::{Attention, AttentionId, Buffer, Group, GroupId};

/// The pages of groups.
pub(in crate::backend::cuda) fn shape(group: &Group) -> Result<GroupCache, CudaError> {
    GroupCache::new(group.width, group.positions, group.overlap)
}

/// Why there is no kernel for groups, if there is none.
pub(in crate::backend::cuda) fn unsupported(group: &Group) -> Option<String> {
    shape(group).err().map(|error| error.to_string())
}

/// Why there is no kernel for such rows in a cache, if there is none.
pub(in crate::backend::cuda) fn unsupported_append(attention: &Attention) -> Option<String> {
    let Attention { kv_heads, key_dim, value_dim, .. } = *attention;
    let fits = kv_heads == 1 && key_dim == value_dim;
    (!fits).then(|| format!("groups of {kv_heads} heads of {key_dim} and {value_dim} values"))
}

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    values: Buffer,
    gates: Option<Buffer>,
    id: GroupId,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let (model, layer, inputs) = (frame.model, &frame.caches.groups[id.0], frame.inputs);
    let group = model.group(id);
    let summarise = Summarise {
        values: frame.span(values)?,
        gates: gates.map(|gates| frame.span(gates)).transpose()?,
        places: group.places.map(|places| model.vector(places)),
        norm: model.norm(group.norm),
        groups: GroupRows {
            shape: layer.shape,
            pages: layer.memory(),
            table: inputs.pages()?,
            stride: inputs.stride(),
            positions: inputs.positions(frame.rows)?,
            sequences: inputs.sequences(frame.rows)?,
        },
        out: frame.span(out)?,
    };
    Ok(vec![summarise.launch(frame.info)?])
}

pub(in crate::backend::cuda) fn append(
    frame: &Frame<'_>,
    rows: Buffer,
    positions: usize,
    id: AttentionId,
) -> Result<Vec<Launch>, CudaError> {
    let append = SummaryAppend {
        x: frame.span(rows)?,
        rows: frame.rows,
        positions,
        rope: Some(frame.model.rope(id).clone()),
        cache: cache(frame, id)?,
    };
    Ok(vec![append.launch(frame.info)?])
}
