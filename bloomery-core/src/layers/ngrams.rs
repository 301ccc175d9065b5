//! Hashed n-grams: rows of their table, keys and values of those, and what they add to the streams.

use super::{Builder, Scope};
use crate::def::{NgramKind, Ngrams, Norm};
use crate::error::LoadError;
use crate::program::{Buffer, NgramConv, NgramLayer, Op, Projection, Rows};

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
    let key = builder.buffer("n-gram keys", x.cols, Rows::All);
    let value = builder.buffer("n-gram values", width, Rows::All);
    let [key_weight, value_weight, table] = match hash.kind {
        NgramKind::PerLayer { .. } => [
            builder.bind.matrix(&scope.tensor("ple_key.weight"), key.cols, joined)?,
            builder.bind.matrix(&scope.tensor("ple_value.weight"), value.cols, joined)?,
            builder.bind.table("per_layer_token_embd.weight", hash.width)?,
        ],
        NgramKind::Engram => {
            let (both, all) = (scope.tensor("engram_wkv.weight"), key.cols + value.cols);
            let names = ["engram_embd.weight", "engram_embed.weight"].map(|name| scope.tensor(name));
            let table = names.iter().find(|name| builder.bind.has(name)).unwrap_or(&names[0]);
            [
                builder.bind.matrix_rows(&both, all, joined, 0, key.cols)?,
                builder.bind.matrix_rows(&both, all, joined, key.cols, value.cols)?,
                builder.bind.table(table, hash.width)?,
            ]
        }
    };
    let mut gain = |name: &str| builder.gain(&scope.tensor(name), norm, x.cols);
    let (key_norm, query_norm, conv) = match hash.kind {
        NgramKind::PerLayer { taps } => {
            let gains = (gain("ple_norm_key.weight")?, gain("ple_norm_query.weight")?);
            let norm = gain("ple_norm_conv.weight")?;
            let weights = builder.bind.values(&scope.tensor("ple_conv1d.weight"), &[taps, x.cols])?;
            (gains.0, gains.1, Some(NgramConv { norm, weights, taps }))
        }
        NgramKind::Engram => {
            let mut gain = |name: &str| {
                let gain = builder.bind.values(&scope.tensor(name), &[width, streams])?;
                Ok::<_, LoadError>(crate::program::Gain { norm, gain })
            };
            (gain("engram_k.weight")?, gain("engram_q.weight")?, None)
        }
    };
    let hash = hash.clone();
    let layer = NgramLayer { hash, table, streams, width, key_norm, query_norm, conv };
    let ngrams = builder.ngrams(layer);
    builder.push(Op::Ngrams { ngrams, out: found });
    let part = |weight, out| Projection { weight, bias: None, out, accumulate: false };
    let parts = vec![part(key_weight, key), part(value_weight, value)];
    builder.push(Op::Project { x: found, norm: None, parts });
    builder.push(Op::NgramMix { ngrams, key, value, x });
    Ok(())
}
