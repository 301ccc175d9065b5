//! Residual streams: what the parts of a layer read of them, and how their results get back.

use super::{Builder, Join, Scope, feed_forward, mixer, ngrams};
use crate::def::{Mixing, ModelDef, Norm, Reading, Streams};
use crate::error::LoadError;
use crate::program::{Buffer, Gain, Hyper, Op, Projection, Rows};

/// Where the result of a part goes.
#[derive(Clone, Copy)]
pub(super) struct Site {
    streams: Buffer,
    weights: Buffer,
    count: usize,
    /// Of hyper-connections.
    hyper: Option<Hyper>,
}

impl Site {
    /// Gives the streams what a part returned.
    pub(super) fn write(self, y: Buffer) -> Op {
        let Self { streams: x, weights, count, hyper } = self;
        match hyper {
            None => Op::Inject { y, weights, streams: count, x },
            Some(hyper) => Op::HyperWrite { y, weights, hyper, x },
        }
    }
}

/// Emits a layer and returns the streams to go on with.
pub(super) fn layer(
    builder: &mut Builder<'_>,
    def: &ModelDef,
    streams: &Streams,
    scope: Scope,
    mut x: Buffer,
) -> Result<Buffer, LoadError> {
    let layer = &def.layers[scope.index];
    for hash in def.ngrams.iter().filter(|ngrams| ngrams.layer == scope.index) {
        ngrams::emit(builder, &scope, hash, (streams.count, layer.norm), x)?;
    }
    let is_last = scope.last;
    // The mixer's weights for streams are of all rows: only what comes after them is of those that are wanted.
    let scope = Scope { last: false, ..scope };
    let (read, site) = read(builder, &scope, streams, layer.norm, ("hc_attn", x))?;
    let norm = part_norm(builder, &scope, streams, (layer.norm, "attn_norm"))?;
    mixer(builder, &Scope { join: Join::Streams(site), ..scope }, &layer.mixer, norm, read)?;
    if is_last {
        x = builder.take(x, "x");
        // The part after it reads with weights of this one.
        if let Some(weights) = lagged(builder, streams, "hc_ffn", Rows::All) {
            builder.take(weights, CONNECTIONS[0]);
        }
    }
    let (read, site) = self::read(builder, &scope, streams, layer.norm, ("hc_ffn", x))?;
    let norm = part_norm(builder, &scope, streams, (layer.norm, layer.ffn_norm))?;
    feed_forward(builder, &Scope { join: Join::Streams(site), ..scope }, &layer.ffn, norm, read)?;
    Ok(x)
}

/// The norm of what a part reads, where that is not normed already.
pub(super) fn part_norm(
    builder: &mut Builder<'_>,
    scope: &Scope,
    streams: &Streams,
    (norm, name): (Norm, &str),
) -> Result<Option<Gain>, LoadError> {
    match streams.mixing {
        Mixing::Gated { .. } => Ok(None),
        Mixing::Hyper { .. } => {
            builder.gain(&scope.tensor(&format!("{name}.weight")), norm, scope.hidden).map(Some)
        }
    }
}

/// Buffers of the weights of hyper-connections: of mixers, and of feed-forward parts.
const CONNECTIONS: [&str; 2] = ["connections of mixers", "connections of feed-forward parts"];

fn connections(name: &str) -> &'static str {
    CONNECTIONS[usize::from(name != "hc_attn")]
}

fn is_lagged(streams: &Streams) -> bool {
    matches!(streams.mixing, Mixing::Hyper { reading: Reading::Lagged, .. })
}

/// The weights of the part before, if the part reads with those.
fn lagged(builder: &mut Builder<'_>, streams: &Streams, name: &str, rows: Rows) -> Option<Buffer> {
    let before = CONNECTIONS[usize::from(name == "hc_attn")];
    is_lagged(streams).then(|| builder.buffer(before, streams.count * (streams.count + 2), rows))
}

/// What a part reads, and where its result goes.
pub(super) fn read(
    builder: &mut Builder<'_>,
    scope: &Scope,
    streams: &Streams,
    norm: Norm,
    (name, x): (&str, Buffer),
) -> Result<(Buffer, Site), LoadError> {
    let count = streams.count;
    let out = builder.buffer("read", scope.hidden, x.rows);
    match streams.mixing {
        Mixing::Gated { low_rank } => {
            let weights = builder.buffer("inject", count, x.rows);
            let prefix = scope.tensor(name);
            gated(builder, &prefix, (count, low_rank), norm, (x, Some(weights), out))?;
            Ok((out, Site { streams: x, weights, count, hyper: None }))
        }
        Mixing::Hyper { rounds, eps, .. } => {
            let each = count * (count + 2);
            let weights = builder.buffer(connections(name), each, x.rows);
            let from = lagged(builder, streams, name, x.rows);
            let tensor = |part: &str| scope.tensor(&format!("{name}_{part}.weight"));
            let weight = builder.bind.matrix_floats(&tensor("fn"), each, x.cols)?;
            let part = Projection { weight, bias: None, out: weights, accumulate: false };
            builder.push(Op::Project { x, norm: None, parts: vec![part] });
            let scale = builder.bind.vector(&tensor("scale"), 3)?;
            let base = builder.bind.vector(&tensor("base"), each)?;
            let hyper = Hyper { streams: count, scale, base, norm, eps, rounds };
            // Before the first part no weights are there: all streams are the same.
            let is_first = scope.first && name == "hc_attn";
            let from = from.filter(|_| !is_first);
            builder.push(Op::HyperRead { x, weights, from, hyper, out });
            if is_first && is_lagged(streams) {
                builder.push(Op::StreamMean { x, streams: count, out, first: 0 });
            }
            Ok((out, Site { streams: x, weights, count, hyper: Some(hyper) }))
        }
    }
}

/// The mean of normed streams, each value through a sigmoid of a product of low rank; and logits of weights for the way back.
fn gated(
    builder: &mut Builder<'_>,
    prefix: &str,
    (count, low_rank): (usize, usize),
    norm: Norm,
    (x, inject, out): (Buffer, Option<Buffer>, Buffer),
) -> Result<(), LoadError> {
    let tensor = |part: &str| format!("{prefix}_{part}.weight");
    let normed = builder.buffer("streams", x.cols, x.rows);
    let norm = builder.gain(&tensor("norm"), norm, x.cols)?;
    builder.push(Op::StreamNorm { x, norm, streams: count, out: normed });
    let low = builder.buffer("low", low_rank, x.rows);
    let weight = builder.bind.matrix(&tensor("down"), low_rank, x.cols)?;
    let mut parts = vec![Projection { weight, bias: None, out: low, accumulate: false }];
    if let Some(out) = inject {
        let weight = builder.bind.matrix(&tensor("inject"), count, x.cols)?;
        parts.push(Projection { weight, bias: None, out, accumulate: false });
    }
    builder.push(Op::Project { x: normed, norm: None, parts });
    builder.push(Op::ScaledSilu { x: low, scale: 1.0 / count as f32 });
    let gate = builder.buffer("gates", x.cols, x.rows);
    let weight = builder.bind.matrix(&tensor("up"), x.cols, low_rank)?;
    let part = Projection { weight, bias: None, out: gate, accumulate: false };
    builder.push(Op::Project { x: low, norm: None, parts: vec![part] });
    builder.push(Op::GatedMean { x: normed, gate, streams: count, out });
    Ok(())
}

/// What the head reads, and the norm before it where that is not done yet. `prefix` begins the names of the head's tensors.
pub(super) fn head(
    builder: &mut Builder<'_>,
    def: &ModelDef,
    streams: &Streams,
    (prefix, x): (&str, Buffer),
) -> Result<(Buffer, Option<Gain>), LoadError> {
    let out = builder.buffer("read", def.hidden, x.rows);
    match streams.mixing {
        Mixing::Gated { low_rank } => {
            gated(builder, prefix, (streams.count, low_rank), def.norm, (x, None, out))?;
            Ok((out, None))
        }
        Mixing::Hyper { rounds, eps, reading } => {
            let count = streams.count;
            match reading {
                Reading::Own => builder.push(Op::StreamMean { x, streams: count, out, first: 0 }),
                Reading::OwnAndHead => {
                    let weights = builder.buffer("connections of the head", count, x.rows);
                    let tensor = |part: &str| format!("{prefix}_{part}.weight");
                    let weight = builder.bind.matrix_floats(&tensor("fn"), count, x.cols)?;
                    let part = Projection { weight, bias: None, out: weights, accumulate: false };
                    builder.push(Op::Project { x, norm: None, parts: vec![part] });
                    let scale = builder.bind.vector(&tensor("scale"), 1)?;
                    let base = builder.bind.vector(&tensor("base"), count)?;
                    let hyper = Hyper { streams: count, scale, base, norm: def.norm, eps, rounds };
                    builder.push(Op::HyperRead { x, weights, from: None, hyper, out });
                }
                Reading::Lagged => {
                    let weights = builder.buffer(CONNECTIONS[1], count * (count + 2), x.rows);
                    builder.push(Op::HyperLast { x, weights, streams: count, out });
                }
            }
            Ok((out, Some(builder.gain("output_norm.weight", def.norm, def.hidden)?)))
        }
    }
}
