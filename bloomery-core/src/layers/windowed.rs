//! Attention to a window and to rows that stand for groups of positions.

use super::{Builder, Scope, index};
use crate::def::{Choice, Layer, Mixer, ModelDef, Norm, Rope, Summaries, Windowed};
use crate::error::LoadError;
use crate::program::{
    Attended, Attention, AttentionId, Buffer, Candidates, Gain, Group, Index, IndexId, Op, Pooling,
    Projection, Rows,
};
use crate::weights::HeadRows;

/// What a layer leaves for later ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shared {
    rows: Option<Stream>,
    /// Positions of the groups that were chosen last.
    chosen: Option<usize>,
    /// Positions of the groups of which there are candidates.
    candidates: Option<usize>,
}

/// Rows that stand for groups.
#[derive(Debug, Clone, Copy)]
struct Stream {
    positions: usize,
    attention: AttentionId,
    /// The keys by which they are chosen.
    keys: Option<IndexId>,
}

impl Shared {
    /// An error if a layer had to make candidates, and did not.
    pub(super) fn check(&self, def: &ModelDef) -> Result<(), LoadError> {
        let of_layer = |layer: &Layer| match &layer.mixer {
            Mixer::Windowed(windowed) => windowed.summaries?.choice?.candidates,
            _ => None,
        };
        match def.layers.iter().find_map(of_layer) {
            Some(candidates) if candidates.required && self.candidates.is_none() => {
                Err(LoadError::UnsupportedConfig {
                    key: format!("{}.attention.candidate_source_layer_id", def.architecture),
                    value: candidates.layer.to_string(),
                    supported: "a layer with indexer.attn_q_b",
                })
            }
            _ => Ok(()),
        }
    }
}

/// What the parts of a layer read.
#[derive(Clone, Copy)]
struct Inputs {
    x: Buffer,
    norm: Option<Gain>,
    /// The queries' latent, and its norm.
    latent: (Buffer, Gain),
}

/// Emits the mixer and returns the residual to go on with.
pub(super) fn emit(
    builder: &mut Builder<'_>,
    scope: &Scope,
    layer: &Windowed,
    norm: Option<Gain>,
    x: Buffer,
) -> Result<Buffer, LoadError> {
    let attention = window(builder, scope, layer)?;
    let window = builder.attention(attention);
    emit_over(builder, scope, (layer, window), norm, x)
}

/// The same over a cache that is there.
pub(super) fn emit_over(
    builder: &mut Builder<'_>,
    scope: &Scope,
    (layer, window): (&Windowed, AttentionId),
    norm: Option<Gain>,
    x: Buffer,
) -> Result<Buffer, LoadError> {
    let queries = append(builder, scope, (layer, window), norm, x)?;
    attend(builder, scope, layer, queries)
}

/// Queries of all rows, whose keys are in the cache.
pub(super) struct Queries {
    q: Buffer,
    window: AttentionId,
    inputs: Inputs,
}

/// Projections, rotary embedding and append.
pub(super) fn append(
    builder: &mut Builder<'_>,
    scope: &Scope,
    (layer, window): (&Windowed, AttentionId),
    norm: Option<Gain>,
    x: Buffer,
) -> Result<Queries, LoadError> {
    let Windowed { heads, head_dim, q_latent, .. } = *layer;
    let q = builder.buffer("q", heads * head_dim, Rows::All);
    let kv = builder.buffer("kv", head_dim, Rows::All);
    let latent = builder.buffer("q latent", q_latent, Rows::All);
    let mut parts = vec![part(builder, scope, "attn_q_a.weight", latent, scope.hidden)?];
    parts.push(part(builder, scope, "attn_kv.weight", kv, scope.hidden)?);
    builder.push(Op::Project { x, norm, parts });
    let latent = (latent, builder.gain(&scope.tensor("attn_q_a_norm.weight"), layer.norm, q_latent)?);
    let parts = vec![part(builder, scope, "attn_q_b.weight", q, q_latent)?];
    builder.push(Op::Project { x: latent.0, norm: Some(latent.1), parts });
    builder.push(Op::SharedAppend { q, k: kv, attention: window });
    Ok(Queries { q, window, inputs: Inputs { x, norm, latent } })
}

/// Attention and output projection.
pub(super) fn attend(
    builder: &mut Builder<'_>,
    scope: &Scope,
    layer: &Windowed,
    Queries { q, window, inputs }: Queries,
) -> Result<Buffer, LoadError> {
    let out = builder.buffer("attention", q.cols, Rows::All);
    match &layer.summaries {
        None => builder.push(Op::Attend { q, attention: window, out }),
        Some(summaries) => {
            let stream = stream(builder, scope, (layer, summaries), inputs)?;
            let mut attended = |values, sums, attention| {
                let values = builder.buffer(values, out.cols, Rows::All);
                let part = Attended { values, sums: builder.buffer(sums, layer.heads, Rows::All) };
                builder.push(Op::AttendPart { q, attention, out: part });
                part
            };
            let parts =
                [attended("near", "sums near", window), attended("far", "sums far", stream.attention)];
            let sinks = builder.bind.vector(&scope.tensor("attn_sinks.weight"), layer.heads)?;
            builder.push(Op::Blend { parts, sinks, out });
        }
    }
    builder.push(Op::TurnBack { x: out, attention: window });
    let (count, rank) = (layer.out_groups, layer.out_rank);
    let each = HeadRows { count, stride: rank, first: 0, rows: rank, cols: out.cols / count };
    let weights = builder.bind.heads(&scope.tensor("attn_output_a.weight"), each, false)?;
    let grouped = builder.buffer("grouped", count * rank, Rows::All);
    builder.push(Op::PerHead { x: out, weights, out: grouped });
    let weight = builder.bind.matrix(&scope.tensor("attn_output_b.weight"), scope.hidden, grouped.cols)?;
    builder.mixed(scope, (grouped, "grouped"), (weight, None), inputs.x)
}

fn part(
    builder: &mut Builder<'_>,
    scope: &Scope,
    name: &str,
    out: Buffer,
    cols: usize,
) -> Result<Projection, LoadError> {
    let weight = builder.bind.matrix(&scope.tensor(name), out.cols, cols)?;
    Ok(Projection { weight, bias: None, out, accumulate: false })
}

/// Attention to the rows of a window.
pub(super) fn window(
    builder: &mut Builder<'_>,
    scope: &Scope,
    layer: &Windowed,
) -> Result<Attention, LoadError> {
    let k_norm = builder.gain(&scope.tensor("attn_kv_a_norm.weight"), layer.norm, layer.head_dim)?;
    let q_norm = layer.head_norm.then(|| Gain { norm: layer.norm, gain: builder.bind.ones(layer.head_dim) });
    // Where there are other rows to attend to, sinks belong to both.
    let sinks = match layer.summaries {
        None => Some(builder.bind.vector(&scope.tensor("attn_sinks.weight"), layer.heads)?),
        Some(_) => None,
    };
    let window = Some(layer.window);
    Ok(Attention { q_norm, k_norm: Some(k_norm), window, sinks, ..attention(layer) })
}

/// Attention to everything.
fn attention(layer: &Windowed) -> Attention {
    let Windowed { heads, head_dim, scale, .. } = *layer;
    Attention {
        heads,
        kv_heads: 1,
        key_dim: head_dim,
        value_dim: head_dim,
        scale,
        window: None,
        rope: layer.rope.clone(),
        rope_first: head_dim.saturating_sub(layer.rope.dims),
        q_norm: None,
        k_norm: None,
        factors: None,
        sinks: None,
        index: None,
        is_masked: false,
        whole: false,
    }
}

/// The rows of groups that the layer attends to, of which those it sees are chosen.
fn stream(
    builder: &mut Builder<'_>,
    scope: &Scope,
    (layer, summaries): (&Windowed, &Summaries),
    inputs: Inputs,
) -> Result<Stream, LoadError> {
    let positions = summaries.positions;
    let makes = builder.bind.has(&scope.tensor("attn_compressor_kv.weight"));
    if makes || !summaries.shared {
        let stream = rows(builder, scope, (layer, summaries), inputs)?;
        builder.shared.rows = Some(stream);
    }
    let missing = |name: &str| LoadError::MissingTensor { name: scope.tensor(name) };
    let other = |found: usize| LoadError::UnsupportedConfig {
        key: scope.tensor("attention.compress_ratios"),
        value: format!("{positions} where the layers before it have {found}"),
        supported: "the ratio of the layer whose rows it shares",
    };
    let stream = builder.shared.rows.ok_or_else(|| missing("attn_compressor_kv.weight"))?;
    if stream.positions != positions {
        return Err(other(stream.positions));
    }
    let Some(choice) = &summaries.choice else {
        builder.push(Op::SelectEnds { positions });
        return Ok(stream);
    };
    if builder.bind.has(&scope.tensor("indexer.attn_q_b.weight")) || !summaries.shared {
        let keys = stream.keys.ok_or_else(|| missing("indexer.attn_k.weight"))?;
        choose(builder, scope, (choice, keys, positions), inputs)?;
        builder.shared.chosen = Some(positions);
    }
    match builder.shared.chosen {
        Some(found) if found == positions => Ok(stream),
        Some(found) => Err(other(found)),
        None => Err(missing("indexer.attn_q_b.weight")),
    }
}

/// Makes rows, and keys to choose them by.
fn rows(
    builder: &mut Builder<'_>,
    scope: &Scope,
    (layer, summaries): (&Windowed, &Summaries),
    inputs: Inputs,
) -> Result<Stream, LoadError> {
    let (width, positions, rope) = (layer.head_dim, summaries.positions, &layer.rope);
    let out = builder.buffer("summaries", width, Rows::All);
    summarise(builder, scope, summaries, ("attn_compressor", layer.norm), inputs, out)?;
    let keys = match &summaries.choice {
        None => None,
        Some(choice) => Some(keys(builder, scope, (summaries, choice), (layer.norm, rope), (inputs, out))?),
    };
    let attention = builder.attention(Attention { is_masked: true, ..attention(layer) });
    builder.push(Op::SummaryAppend { rows: out, positions, attention });
    Ok(Stream { positions, attention, keys })
}

/// The rows of the groups that end with rows of the step.
fn summarise(
    builder: &mut Builder<'_>,
    scope: &Scope,
    summaries: &Summaries,
    (name, norm): (&str, Norm),
    Inputs { x, norm: x_norm, .. }: Inputs,
    out: Buffer,
) -> Result<(), LoadError> {
    let Summaries { positions, overlap, places, .. } = *summaries;
    let channels = if overlap { 2 * out.cols } else { out.cols };
    let tensor = |kind: &str| format!("{name}_{kind}.weight");
    let values = builder.buffer("group values", channels, Rows::All);
    let mut parts = vec![part(builder, scope, &tensor("kv"), values, scope.hidden)?];
    // A group of one position needs no weights.
    let gates = (positions > 1).then(|| builder.buffer("group gates", channels, Rows::All));
    if let Some(gates) = gates {
        parts.push(part(builder, scope, &tensor("gate"), gates, scope.hidden)?);
    }
    builder.push(Op::Project { x, norm: x_norm, parts });
    let places = match places {
        true => Some(builder.bind.values(&scope.tensor(&tensor("ape")), &[channels, positions])?),
        false => None,
    };
    let norm = builder.gain(&scope.tensor(&tensor("norm")), norm, out.cols)?;
    let group = Group { width: out.cols, positions, overlap, places, norm };
    group.shape().map_err(|_| LoadError::UnsupportedConfig {
        key: scope.tensor("attention.compress_ratios"),
        value: positions.to_string(),
        supported: "divisors and multiples of 64",
    })?;
    let group = builder.group(group);
    builder.push(Op::Summarise { values, gates, group, out });
    Ok(())
}

/// Keys of groups: products of their rows, or sums like them.
fn keys(
    builder: &mut Builder<'_>,
    scope: &Scope,
    (summaries, choice): (&Summaries, &Choice),
    (norm, rope): (Norm, &Rope),
    (inputs, rows): (Inputs, Buffer),
) -> Result<IndexId, LoadError> {
    let Choice { heads, width, keep, .. } = *choice;
    let keys = builder.buffer("index keys", width, Rows::All);
    let norm = if summaries.overlap {
        summarise(builder, scope, summaries, ("indexer_compressor", norm), inputs, keys)?;
        None
    } else {
        // Names in the wild.
        let names =
            [("indexer.attn_k", "indexer.k_norm"), ("indexer_compressor_kv", "indexer_compressor_norm")];
        let has = |(key, _): &&(&str, &str)| builder.bind.has(&scope.tensor(&format!("{key}.weight")));
        let (key, gain) = *names.iter().find(has).unwrap_or(&names[0]);
        let parts = vec![part(builder, scope, &format!("{key}.weight"), keys, rows.cols)?];
        builder.push(Op::Project { x: rows, norm: None, parts });
        Some(builder.gain(&scope.tensor(&format!("{gain}.weight")), norm, width)?)
    };
    let rope_first = width.saturating_sub(rope.dims);
    let pooling = Pooling::Made { norm, rope: rope.clone(), rope_first };
    let index = Index { heads, width, block: summaries.positions, keep, pooling };
    let index = index::checked(builder, scope, index)?;
    builder.push(Op::IndexAppend { keys, gates: None, index });
    Ok(index)
}

/// Chooses the groups that rows see.
fn choose(
    builder: &mut Builder<'_>,
    scope: &Scope,
    (choice, index, positions): (&Choice, IndexId, usize),
    Inputs { x, norm, latent }: Inputs,
) -> Result<(), LoadError> {
    let q = builder.buffer("index queries", choice.heads * choice.width, Rows::All);
    let weights = builder.buffer("index weights", choice.heads, Rows::All);
    let parts = vec![part(builder, scope, "indexer.proj.weight", weights, scope.hidden)?];
    builder.push(Op::Project { x, norm, parts });
    let parts = vec![part(builder, scope, "indexer.attn_q_b.weight", q, latent.0.cols)?];
    builder.push(Op::Project { x: latent.0, norm: Some(latent.1), parts });
    let candidates = match choice.candidates {
        Some(spans) if spans.layer == scope.index => {
            builder.shared.candidates = Some(positions);
            Candidates::Make { size: spans.size, keep: spans.keep }
        }
        Some(spans) => match builder.shared.candidates {
            None => Candidates::None,
            Some(found) if found == positions => Candidates::Use { size: spans.size },
            Some(found) => {
                return Err(LoadError::UnsupportedConfig {
                    key: scope.tensor("attention.compress_ratios"),
                    value: format!("{positions} where candidates are groups of {found}"),
                    supported: "the ratio of the layer that makes candidates",
                });
            }
        },
        None => Candidates::None,
    };
    builder.push(Op::Select { q, weights: Some(weights), index, candidates });
    Ok(())
}
