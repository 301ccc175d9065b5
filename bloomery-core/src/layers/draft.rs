//! A block that guesses tokens: its keys and values for every row of a step, and the passes that guess.

use super::{Builder, Join, Scope, feed_forward, gqa, mla, streams, windowed};
use crate::def::{Gqa, Mixer, Mixing, Mla, ModelDef, NextToken, Streams, Windowed};
use crate::error::LoadError;
use crate::program::{Buffer, Draft, Gain, Insert, Op, Projection, Rows};
use crate::weights::MatrixId;

/// What the block takes from the trunk.
pub(super) struct Trunk {
    pub(super) table: MatrixId,
    pub(super) head: MatrixId,
    /// The residual after the last layer.
    pub(super) x: Buffer,
    pub(super) logits: Buffer,
}

/// Whether the file has the block.
pub(super) fn is_there(builder: &Builder<'_>, next: &NextToken) -> bool {
    builder.bind.has(&format!("blk.{}.nextn.eh_proj.weight", next.block))
}

/// Emits what every step does, and returns what a guess takes.
pub(super) fn emit(
    builder: &mut Builder<'_>,
    def: &ModelDef,
    next: &NextToken,
    (trunk, trunk_norm): (Trunk, Gain),
) -> Result<Draft, LoadError> {
    let scope = Scope { index: next.block, ..Scope::of(def) };
    let at = builder.ops.len();
    let states = builder.buffer("states", def.hidden, Rows::All);
    builder.push(Op::Norm { x: trunk.x, norm: trunk_norm, out: states });
    let carried = builder.buffer("carried", def.hidden, Rows::All);
    builder.push(Op::Previous { x: states, out: carried });

    let shared = builder.ops.len();
    let x = input(builder, &scope, def, next, (trunk.table, carried, 1))?;
    let norm = builder.gain(&scope.tensor("attn_norm.weight"), next.layer.norm, def.hidden)?;
    let heads = append(builder, &scope, &next.layer.mixer, Some(norm), x)?;

    // What comes next is no part of a step.
    let end = builder.ops.len();
    attend(builder, &scope, heads, x)?;
    let name = format!("{}.weight", next.layer.ffn_norm);
    // Blocks of small dense models may end with attention.
    if builder.bind.has(&scope.tensor(&name)) {
        let norm = builder.gain(&scope.tensor(&name), next.layer.norm, def.hidden)?;
        feed_forward(builder, &scope, &next.layer.ffn, Some(norm), x)?;
    }
    head(builder, &scope, def, next, (trunk, trunk_norm), (x, carried))?;
    Ok(finish(builder, (at, shared, end), carried))
}

/// As [`emit`], of a block whose residual has streams, and which goes on from all of those of the row before.
pub(super) fn emit_streams(
    builder: &mut Builder<'_>,
    def: &ModelDef,
    (next, streams): (&NextToken, &Streams),
    trunk: Trunk,
) -> Result<Draft, LoadError> {
    let scope = Scope { index: next.block, ..Scope::of(def) };
    let at = builder.ops.len();
    let carried = builder.buffer("carried", trunk.x.cols, Rows::All);
    builder.push(Op::Previous { x: trunk.x, out: carried });

    let shared = builder.ops.len();
    let x = input(builder, &scope, def, next, (trunk.table, carried, streams.count))?;
    let (read, site) = streams::read(builder, &scope, streams, next.layer.norm, ("hc_attn", x))?;
    let scope = Scope { join: Join::Streams(site), ..scope };
    let norm = streams::part_norm(builder, &scope, streams, (next.layer.norm, "attn_norm"))?;
    let heads = append(builder, &scope, &next.layer.mixer, norm, read)?;

    let end = builder.ops.len();
    attend(builder, &scope, heads, read)?;
    let (read, site) = streams::read(builder, &scope, streams, next.layer.norm, ("hc_ffn", x))?;
    let scope = Scope { join: Join::Streams(site), ..scope };
    let norm = streams::part_norm(builder, &scope, streams, (next.layer.norm, next.layer.ffn_norm))?;
    feed_forward(builder, &scope, &next.layer.ffn, norm, read)?;
    builder.push(Op::Copy { x, out: carried });
    // Names in the wild, the published one first.
    let own = ["nextn.hc_head", "nextn.hc"].map(|prefix| scope.tensor(prefix));
    let own = own.into_iter().find(|prefix| builder.bind.has(&format!("{prefix}_norm.weight")));
    let prefix = own.unwrap_or_else(|| "output_hc".to_owned());
    let (read, mut norm) = streams::head(builder, def, streams, (&prefix, x))?;
    let own = scope.tensor("nextn.shared_head_norm.weight");
    if norm.is_some() && builder.bind.has(&own) {
        norm = Some(builder.gain(&own, next.layer.norm, def.hidden)?);
    }
    let weight = own_or(builder, &scope.tensor("nextn.shared_head_head.weight"), def, trunk.head)?;
    let part = Projection { weight, bias: None, out: trunk.logits, accumulate: false };
    builder.push(Op::Project { x: read, norm, parts: vec![part] });
    Ok(finish(builder, (at, shared, end), carried))
}

/// Takes the ops of guesses out: those from `shared` on, of which the ones before `end` are also part of every step.
fn finish(builder: &mut Builder<'_>, (at, shared, end): (usize, usize, usize), carried: Buffer) -> Draft {
    let guessing = builder.ops.split_off(end);
    let mut ops = vec![Op::Carried { out: carried }];
    ops.extend_from_slice(&builder.ops[shared..]);
    ops.extend(guessing);
    let follow = vec![Insert { at, ops: builder.ops.split_off(at) }];
    // The last but one leaves what is carried on.
    Draft { follow, ops, again: 1, carried: carried.cols }
}

/// Attention of the block, and what it reads.
enum Appended<'d> {
    Heads(&'d Gqa, gqa::Heads),
    Latents(&'d Mla, mla::Latents),
    Window(&'d Windowed, windowed::Queries),
}

fn append<'d>(
    builder: &mut Builder<'_>,
    scope: &Scope,
    mixer: &'d Mixer,
    norm: Option<Gain>,
    x: Buffer,
) -> Result<Appended<'d>, LoadError> {
    match mixer {
        Mixer::Gqa(gqa) => Ok(Appended::Heads(gqa, gqa::append(builder, scope, gqa, norm, x)?)),
        Mixer::Mla(mla) => Ok(Appended::Latents(mla, mla::append(builder, scope, mla, norm, x)?)),
        // Rows of groups would be made of every row, and are not.
        Mixer::Windowed(layer) if layer.summaries.is_none() => {
            let window = windowed::window(builder, scope, layer)?;
            let window = builder.attention(window);
            Ok(Appended::Window(layer, windowed::append(builder, scope, (layer, window), norm, x)?))
        }
        Mixer::Delta(_) | Mixer::Windowed(_) => {
            let (key, value) = (format!("blk.{}", scope.index), format!("{mixer:?}"));
            Err(LoadError::UnsupportedConfig { key, value, supported: "attention" })
        }
    }
}

fn attend(
    builder: &mut Builder<'_>,
    scope: &Scope,
    appended: Appended<'_>,
    x: Buffer,
) -> Result<(), LoadError> {
    match appended {
        Appended::Heads(gqa, heads) => gqa::attend(builder, scope, gqa, heads, x)?,
        Appended::Latents(mla, latents) => mla::attend(builder, scope, mla, latents, x)?,
        Appended::Window(layer, queries) => windowed::attend(builder, scope, layer, queries)?,
    };
    Ok(())
}

/// The normed embedding beside the normed state of the row before, brought to the model's width: stream by stream where there are
/// several.
fn input(
    builder: &mut Builder<'_>,
    scope: &Scope,
    def: &ModelDef,
    next: &NextToken,
    (table, carried, streams): (MatrixId, Buffer, usize),
) -> Result<Buffer, LoadError> {
    let table = own_or(builder, &scope.tensor("nextn.embed_tokens.weight"), def, table)?;
    let embedding_norm = builder.gain(&scope.tensor("nextn.enorm.weight"), next.layer.norm, def.hidden)?;
    // Streams behind gates have a gain each, connected ones share one.
    let width = match def.streams.map(|streams| streams.mixing) {
        Some(Mixing::Hyper { .. }) => def.hidden,
        Some(Mixing::Gated { .. }) | None => carried.cols,
    };
    let gain = builder.bind.repeated(&scope.tensor("nextn.hnorm.weight"), width, carried.cols / width)?;
    let norm = Gain { norm: next.layer.norm, gain };
    let pair = builder.buffer("pair", 2 * carried.cols, Rows::All);
    builder.push(Op::Pair { table, embedding_norm, x: carried, norm, streams, out: pair });
    let out = builder.buffer("guess", carried.cols, Rows::All);
    let weight = builder.bind.matrix(&scope.tensor("nextn.eh_proj.weight"), def.hidden, 2 * def.hidden)?;
    let part = Projection { weight, bias: None, out, accumulate: false };
    builder.push(match streams {
        1 => Op::Project { x: pair, norm: None, parts: vec![part] },
        _ => Op::ProjectStreams { x: pair, part, streams },
    });
    Ok(out)
}

/// The state that a next guess goes on from, and the logits.
fn head(
    builder: &mut Builder<'_>,
    scope: &Scope,
    def: &ModelDef,
    next: &NextToken,
    (trunk, trunk_norm): (Trunk, Gain),
    (x, carried): (Buffer, Buffer),
) -> Result<(), LoadError> {
    let own = scope.tensor("nextn.shared_head_norm.weight");
    let norm = match builder.bind.has(&own) {
        true => builder.gain(&own, next.layer.norm, def.hidden)?,
        false => trunk_norm,
    };
    builder.push(Op::Norm { x, norm, out: carried });
    let weight = own_or(builder, &scope.tensor("nextn.shared_head_head.weight"), def, trunk.head)?;
    let head = Projection { weight, bias: None, out: trunk.logits, accumulate: false };
    builder.push(Op::Project { x: carried, norm: None, parts: vec![head] });
    Ok(())
}

/// The block's own matrix with a row for every token, else the trunk's.
fn own_or(
    builder: &mut Builder<'_>,
    own: &str,
    def: &ModelDef,
    trunk: MatrixId,
) -> Result<MatrixId, LoadError> {
    if builder.bind.has(own) { builder.bind.matrix(own, def.vocab, def.hidden) } else { Ok(trunk) }
}
