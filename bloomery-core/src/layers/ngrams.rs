//! Hashed n-grams: rows of their table, keys and values of those, and what they add to the streams.

use super::{Builder, Scope};
use crate::def::{Ngrams, Norm};
use crate::error::LoadError;
use crate::program::{Buffer, NgramLayer, Op, Projection, Rows};

/// Adds to the streams `x`.
pub(super) fn emit(
    builder: &mut Builder<'_>,
    scope: &Scope,
    hash: &Ngrams,
    (streams, norm): (usize, Norm),
    x: Buffer,
) -> Result<(), LoadError> {
    let (width, joined) = (scope.hidden, hash.heads.len() * hash.width);
    let found = builder.buffer("n-grams", joined, Rows::All);
    builder.push(Op::Ngrams { out: found });
    let key = builder.buffer("n-gram keys", x.cols, Rows::All);
    let value = builder.buffer("n-gram values", width, Rows::All);
    let mut parts = Vec::with_capacity(2);
    for (out, name) in [(key, "ple_key.weight"), (value, "ple_value.weight")] {
        let weight = builder.bind.matrix(&scope.tensor(name), out.cols, joined)?;
        parts.push(Projection { weight, bias: None, out, accumulate: false });
    }
    builder.push(Op::Project { x: found, norm: None, parts });
    let table = builder.bind.table("per_layer_token_embd.weight", hash.width)?;
    let mut gain = |name: &str| builder.gain(&scope.tensor(name), norm, x.cols);
    let (key_norm, query_norm) = (gain("ple_norm_key.weight")?, gain("ple_norm_query.weight")?);
    let conv_norm = gain("ple_norm_conv.weight")?;
    let conv = builder.bind.values(&scope.tensor("ple_conv1d.weight"), &[hash.taps, x.cols])?;
    let hash = hash.clone();
    builder.ngrams = Some(NgramLayer { hash, table, streams, width, key_norm, query_norm, conv_norm, conv });
    builder.push(Op::NgramMix { key, value, x });
    Ok(())
}
