//! A block that guesses tokens: its keys and values for every row of a step, and the passes that guess.

use super::{Builder, Join, Scope, feed_forward, gqa};
use crate::def::{Mixer, ModelDef, NextToken};
use crate::error::LoadError;
use crate::program::{Buffer, Draft, Gain, Op, Projection, Rows};
use crate::weights::MatrixId;

/// What the block takes from the trunk.
pub(super) struct Trunk {
    pub(super) table: MatrixId,
    pub(super) head: MatrixId,
    /// Before the head.
    pub(super) norm: Gain,
    /// The residual after the last layer.
    pub(super) x: Buffer,
    pub(super) logits: Buffer,
}

/// Emits what every step does, and returns what a guess takes.
pub(super) fn emit(
    builder: &mut Builder<'_>,
    def: &ModelDef,
    next: &NextToken,
    trunk: Trunk,
) -> Result<Draft, LoadError> {
    let scope = Scope { index: next.block, hidden: def.hidden, last: false, join: Join::Add };
    let Mixer::Gqa(mixer) = &next.layer.mixer else {
        let (key, value) = (format!("blk.{}", next.block), format!("{:?}", next.layer.mixer));
        return Err(LoadError::UnsupportedConfig {
            key,
            value,
            supported: "attention with heads of its own",
        });
    };
    let at = builder.ops.len();
    let states = builder.buffer("states", def.hidden, Rows::All);
    builder.push(Op::Norm { x: trunk.x, norm: trunk.norm, out: states });
    let carried = builder.buffer("carried", def.hidden, Rows::All);
    builder.push(Op::Previous { x: states, out: carried });

    let shared = builder.ops.len();
    let x = input(builder, &scope, def, next, (trunk.table, carried))?;
    let norm = builder.gain(&scope.tensor("attn_norm.weight"), next.layer.norm, def.hidden)?;
    let heads = gqa::append(builder, &scope, mixer, Some(norm), x)?;

    // What comes next is no part of a step.
    let end = builder.ops.len();
    gqa::attend(builder, &scope, mixer, heads, x)?;
    let name = format!("{}.weight", next.layer.ffn_norm);
    // Blocks of small dense models may end with attention.
    if builder.bind.has(&scope.tensor(&name)) {
        let norm = builder.gain(&scope.tensor(&name), next.layer.norm, def.hidden)?;
        feed_forward(builder, &scope, &next.layer.ffn, Some(norm), x)?;
    }
    head(builder, &scope, def, next, (trunk, x, carried))?;
    let guessing = builder.ops.split_off(end);
    let mut ops = vec![Op::Carried { out: carried }];
    ops.extend_from_slice(&builder.ops[shared..]);
    ops.extend(guessing);
    Ok(Draft { at, follow: builder.ops.split_off(at), ops, carried: def.hidden })
}

/// The normed embedding beside the normed state of the row before, brought to the model's width.
fn input(
    builder: &mut Builder<'_>,
    scope: &Scope,
    def: &ModelDef,
    next: &NextToken,
    (table, carried): (MatrixId, Buffer),
) -> Result<Buffer, LoadError> {
    let table = own_or(builder, &scope.tensor("nextn.embed_tokens.weight"), def, table)?;
    let embedding_norm = builder.gain(&scope.tensor("nextn.enorm.weight"), next.layer.norm, def.hidden)?;
    let norm = builder.gain(&scope.tensor("nextn.hnorm.weight"), next.layer.norm, def.hidden)?;
    let pair = builder.buffer("pair", 2 * def.hidden, Rows::All);
    builder.push(Op::Pair { table, embedding_norm, x: carried, norm, out: pair });
    let out = builder.buffer("guess", def.hidden, Rows::All);
    let weight = builder.bind.matrix(&scope.tensor("nextn.eh_proj.weight"), def.hidden, 2 * def.hidden)?;
    let part = Projection { weight, bias: None, out, accumulate: false };
    builder.push(Op::Project { x: pair, norm: None, parts: vec![part] });
    Ok(out)
}

/// The state that a next guess goes on from, and the logits.
fn head(
    builder: &mut Builder<'_>,
    scope: &Scope,
    def: &ModelDef,
    next: &NextToken,
    (trunk, x, carried): (Trunk, Buffer, Buffer),
) -> Result<(), LoadError> {
    let own = scope.tensor("nextn.shared_head_norm.weight");
    let norm = match builder.bind.has(&own) {
        true => builder.gain(&own, next.layer.norm, def.hidden)?,
        false => trunk.norm,
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
