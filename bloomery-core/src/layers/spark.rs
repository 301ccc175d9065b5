//! Layers that guess a block of tokens in one pass.

use super::{Builder, Join, Scope, feed_forward, streams, windowed};
use crate::arch::spark::NAME;
use crate::def::{Layer, Mixer, ModelDef, Spark, Streams, Windowed};
use crate::error::LoadError;
use crate::program::{Attention, AttentionId, Buffer, Draft, Insert, Op, Projection, Rows};
use crate::weights::MatrixId;

/// What guesses share with the model.
#[derive(Clone, Copy)]
pub(super) struct Trunk<'t> {
    pub(super) table: MatrixId,
    pub(super) head: Projection,
    /// The residuals that go into its layers, and before which op.
    pub(super) inputs: &'t [(usize, Buffer)],
}

/// Emits what every step does, and what a guess takes.
pub(super) fn emit(
    builder: &mut Builder<'_>,
    def: &ModelDef,
    (spark, streams): (&Spark, &Streams),
    trunk: Trunk<'_>,
) -> Result<Draft, LoadError> {
    let caches = caches(builder, def, spark)?;
    let start = builder.ops.len();
    keys(builder, def, spark, &caches)?;
    let follow = follow(builder, def, (spark, streams), trunk.inputs, start);
    let hidden = block(builder, def, streams, (trunk.table, &caches))?;
    let again = builder.ops.len() - start;
    next(builder, def, hidden, trunk.head)?;
    Ok(Draft { follow, ops: builder.ops.split_off(start), again, carried: 0 })
}

fn scope(def: &ModelDef, layer: usize) -> Scope {
    Scope { index: def.layers.len() + layer, first: layer == 0, ..Scope::of(def) }
}

fn name(tensor: &str) -> String {
    format!("{NAME}.{tensor}.weight")
}

/// The layers' attention, each with a cache. A row sees the last positions of the text, and all of the block.
fn caches<'d>(
    builder: &mut Builder<'_>,
    def: &ModelDef,
    spark: &'d Spark,
) -> Result<Vec<(&'d Layer, &'d Windowed, AttentionId)>, LoadError> {
    let cache = |(index, layer): (usize, &'d Layer)| {
        let Mixer::Windowed(windowed) = &layer.mixer else {
            let (key, value) = (format!("{NAME}.block_count"), format!("{:?}", layer.mixer));
            return Err(LoadError::UnsupportedConfig { key, value, supported: "attention to a window" });
        };
        let window = Some(windowed.window + spark.width);
        let attention = windowed::window(builder, &scope(def, index), windowed)?;
        Ok((layer, windowed, builder.attention(Attention { window, whole: true, ..attention })))
    };
    spark.layers.iter().enumerate().map(cache).collect()
}

/// Keys of every position for all layers.
fn keys(
    builder: &mut Builder<'_>,
    def: &ModelDef,
    spark: &Spark,
    caches: &[(&Layer, &Windowed, AttentionId)],
) -> Result<(), LoadError> {
    let wide = sources(builder, def, spark);
    let x = builder.buffer("sources together", def.hidden, Rows::All);
    let weight = builder.bind.matrix(&name("fc"), def.hidden, wide.cols)?;
    let part = Projection { weight, bias: None, out: x, accumulate: false };
    builder.push(Op::Project { x: wide, norm: None, parts: vec![part] });
    let norm = builder.gain(&name("enc.output_norm"), def.norm, def.hidden)?;
    for (index, (_, windowed, attention)) in caches.iter().enumerate() {
        let scope = scope(def, index);
        let [kv, rows] =
            ["kv", "keys of guesses"].map(|name| builder.buffer(name, windowed.head_dim, Rows::All));
        let weight = builder.bind.matrix(&scope.tensor("attn_kv.weight"), kv.cols, def.hidden)?;
        let part = Projection { weight, bias: None, out: kv, accumulate: false };
        builder.push(Op::Project { x, norm: Some(norm), parts: vec![part] });
        let norm = builder.gain(&scope.tensor("attn_kv_a_norm.weight"), windowed.norm, kv.cols)?;
        builder.push(Op::Norm { x: kv, norm, out: rows });
        builder.push(Op::SummaryAppend { rows, positions: 1, attention: *attention });
    }
    Ok(())
}

fn sources(builder: &mut Builder<'_>, def: &ModelDef, spark: &Spark) -> Buffer {
    builder.buffer("sources", spark.sources.len() * def.hidden, Rows::All)
}

/// What every step does before the layers that guesses look into: means of streams, and after the last of these the keys, which are the
/// program's ops from `start` on.
fn follow(
    builder: &mut Builder<'_>,
    def: &ModelDef,
    (spark, streams): (&Spark, &Streams),
    inputs: &[(usize, Buffer)],
    start: usize,
) -> Vec<Insert> {
    let out = sources(builder, def, spark);
    let mut layers = spark.sources.clone();
    layers.sort_unstable();
    layers.dedup();
    let insert = |layer: usize| {
        let (at, x) = inputs[layer];
        let places = spark.sources.iter().enumerate().filter(|(_, source)| **source == layer);
        let mean = |place| Op::StreamMean { x, streams: streams.count, out, first: place * def.hidden };
        Insert { at, ops: places.map(|(place, _)| mean(place)).collect() }
    };
    let mut follow: Vec<Insert> = layers.into_iter().map(insert).collect();
    if let Some(last) = follow.last_mut() {
        last.ops.extend(builder.ops.drain(start..));
    }
    follow
}

/// The block through all layers; returns its normed hidden states.
fn block(
    builder: &mut Builder<'_>,
    def: &ModelDef,
    streams: &Streams,
    (table, caches): (MatrixId, &[(&Layer, &Windowed, AttentionId)]),
) -> Result<Buffer, LoadError> {
    let x = builder.buffer("x", streams.count * def.hidden, Rows::All);
    builder.push(Op::Embed { table, scale: def.embedding_scale, copies: streams.count, out: x });
    for (index, &(layer, windowed, attention)) in caches.iter().enumerate() {
        let scope = scope(def, index);
        let (read, site) = streams::read(builder, &scope, streams, layer.norm, ("hc_attn", x))?;
        let norm = builder.gain(&scope.tensor("attn_norm.weight"), layer.norm, def.hidden)?;
        let joined = Scope { join: Join::Streams(site), ..scope };
        windowed::emit_over(builder, &joined, (windowed, attention), Some(norm), read)?;
        let (read, site) = streams::read(builder, &scope, streams, layer.norm, ("hc_ffn", x))?;
        let norm = builder.gain(&scope.tensor("ffn_norm.weight"), layer.norm, def.hidden)?;
        let joined = Scope { join: Join::Streams(site), ..scope };
        feed_forward(builder, &joined, &layer.ffn, Some(norm), read)?;
    }
    let (read, _) = streams::head(builder, def, streams, ("output_hc", x))?;
    let norm = builder.gain(&name("output_norm"), def.norm, def.hidden)?;
    let hidden = builder.buffer("guesses", def.hidden, Rows::All);
    builder.push(Op::Norm { x: read, norm, out: hidden });
    Ok(hidden)
}

/// The logits of one row of the block, corrected by its token: for the others that of the row before.
fn next(
    builder: &mut Builder<'_>,
    def: &ModelDef,
    hidden: Buffer,
    head: Projection,
) -> Result<(), LoadError> {
    let x = builder.take(hidden, "guesses");
    builder.push(Op::Project { x, norm: None, parts: vec![Projection { accumulate: false, ..head }] });
    let rank = builder.bind.cols(&name("markov_w1"));
    let table = builder.bind.matrix(&name("markov_w1"), def.vocab, rank)?;
    let chosen = builder.buffer("tokens before", rank, Rows::All);
    builder.push(Op::Embed { table, scale: 1.0, copies: 1, out: chosen });
    let chosen = builder.take(chosen, "tokens before");
    let weight = builder.bind.matrix(&name("markov_w2"), def.vocab, rank)?;
    let part = Projection { weight, bias: None, out: head.out, accumulate: true };
    builder.push(Op::Project { x: chosen, norm: None, parts: vec![part] });
    Ok(())
}
