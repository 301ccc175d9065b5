//! Attention to a window and to rows that stand for groups of positions.

use bloomery_kernels::cpu::KvType;
use bloomery_kernels::cuda::{Attend, Blend, BlendPart, CudaError, Launch, SharedAppend, Sight, Span};

use super::attend::{cache, part, shape};
use super::index;
use crate::backend::cuda::frame::Frame;
use crate::program::{Attended, Attention, AttentionId, Buffer, IndexId};
use crate::weights::VectorId;

/// What was chosen last of the rows that stand for groups.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend::cuda) enum Seen {
    /// Nothing yet.
    Nothing,
    /// By an index.
    Chosen(IndexId),
    /// All groups of so many positions.
    Ends(usize),
}

/// Why there is no kernel for keys that are values too, if there is none.
pub(in crate::backend::cuda) fn append_unsupported(attention: &Attention) -> Option<String> {
    let Attention { key_dim, value_dim, .. } = *attention;
    SharedAppend::check(key_dim, value_dim).err().map(|error| error.to_string())
}

/// Why there is no kernel that turns results of a layer back, if there is none.
pub(in crate::backend::cuda) fn turn_unsupported(attention: &Attention) -> Option<String> {
    let Attention { value_dim, rope_first, ref rope, .. } = *attention;
    Blend::check(value_dim, rope.dims / 2, rope_first).err().map(|error| error.to_string())
}

/// Why there is no kernel for a part of attention, if there is none.
pub(in crate::backend::cuda) fn part_unsupported(attention: &Attention, kv: KvType) -> Option<String> {
    let checked = shape(attention, kv).and_then(|shape| match attention.is_masked {
        true => Attend::check_ends(&shape),
        false => Attend::check_sums(&shape),
    });
    checked.err().map(|error| error.to_string())
}

pub(in crate::backend::cuda) fn append(
    frame: &Frame<'_>,
    [q, k]: [Buffer; 2],
    id: AttentionId,
) -> Result<Vec<Launch>, CudaError> {
    let (model, attention) = (frame.model, frame.model.attention(id));
    let append = SharedAppend {
        q: frame.span(q)?,
        k: frame.span(k)?,
        rows: frame.rows,
        heads: attention.heads,
        q_norm: attention.q_norm.map(|norm| model.norm(norm)),
        k_norm: attention.k_norm.map(|norm| model.norm(norm)),
        rope: model.rope(id).clone(),
        cache: cache(frame, id)?,
    };
    Ok(vec![append.launch(frame.info)?])
}

/// Attention to what was chosen, or to all that a row sees.
pub(in crate::backend::cuda) fn attend_part(
    frame: &Frame<'_>,
    q: Buffer,
    id: AttentionId,
    seen: Seen,
    out: Attended,
) -> Result<Vec<Launch>, CudaError> {
    let sight = match (frame.model.attention(id).is_masked, seen) {
        (false, _) => Sight::All,
        (true, Seen::Chosen(index)) => Sight::Chosen(index::chosen(frame, index)?),
        (true, Seen::Ends(positions)) => Sight::Ends(positions),
        (true, Seen::Nothing) => return Err(unchosen()),
    };
    part(frame, (q, id), sight, (frame.span(out.values)?, Some(frame.span(out.sums)?)))?.launches(frame.info)
}

/// No op of a program comes to that.
fn unchosen() -> CudaError {
    let rule = "a choice before it".to_owned();
    CudaError::Contract { kernel: "attend", what: "groups that rows see", found: 0, rule }
}

/// Parts of attention to one, turned back if a layer is named.
pub(in crate::backend::cuda) fn blend(
    frame: &Frame<'_>,
    parts: &[Attended],
    sinks: VectorId,
    turn: Option<AttentionId>,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let part =
        |part: &Attended| Ok(BlendPart { values: frame.span(part.values)?, sums: frame.span(part.sums)? });
    let parts = parts.iter().map(part).collect::<Result<_, CudaError>>()?;
    turned(frame, parts, Some(frame.model.vector(sinks)), turn, out)
}

/// Attention with a score for each head that has no value: a part, and what makes it all; turned back if a layer is named.
pub(in crate::backend::cuda) fn attend_with_sinks(
    frame: &Frame<'_>,
    (q, id): (Buffer, AttentionId),
    sinks: VectorId,
    turn: Option<AttentionId>,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let heads = frame.model.attention(id).heads;
    let sums = frame.memory.sums.slice(0..frame.rows * heads)?;
    let values = frame.span(out)?;
    let attend = part(frame, (q, id), Sight::All, (values.clone(), Some(sums.clone())))?;
    let mut launches = attend.launches(frame.info)?;
    let parts = vec![BlendPart { values, sums }];
    launches.extend(turned(frame, parts, Some(frame.model.vector(sinks)), turn, out)?);
    Ok(launches)
}

/// Results of attention, turned back.
pub(in crate::backend::cuda) fn turn_back(
    frame: &Frame<'_>,
    x: Buffer,
    id: AttentionId,
) -> Result<Vec<Launch>, CudaError> {
    turned(frame, Vec::new(), None, Some(id), x)
}

fn turned(
    frame: &Frame<'_>,
    parts: Vec<BlendPart>,
    sinks: Option<Span<f32>>,
    turn: Option<AttentionId>,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let heads = match (turn, &sinks) {
        (Some(id), _) => frame.model.attention(id).heads,
        (None, sinks) => sinks.as_ref().map_or(0, Span::len),
    };
    let blend = Blend {
        parts,
        sinks,
        rope: turn.map(|id| frame.model.rope(id).clone()),
        positions: frame.inputs.positions(frame.rows)?,
        heads,
        out: frame.span(out)?,
    };
    Ok(vec![blend.launch(frame.info)?])
}
