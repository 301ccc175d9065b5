//! DSpark: layers that guess blocks of tokens for DeepSeek-V4.1, in a file of their own.

use super::{Keys, deepseek4};
use crate::def::Spark;
use crate::draft::MOST_TOKENS;
use crate::error::LoadError;

/// The architecture of such files; it begins their keys and, once they are joined to a model, the names of tensors of no layer.
pub(crate) const NAME: &str = "dflash";
/// The architecture that they guess for.
pub(crate) const TRUNK: &str = "deepseek41";
/// The key of the token that stands for what is not known.
pub(crate) const MASK: &str = "tokenizer.ggml.mask_token_id";

/// The layers that guess for a model of `count` layers and `vocab` tokens, where they are joined to it.
pub(super) fn find(keys: &Keys<'_>, count: usize, vocab: usize) -> Result<Option<Spark>, LoadError> {
    let tokens = keys.under("tokenizer.ggml");
    let keys = keys.under(NAME);
    if keys.opt_count("block_count")?.is_none() {
        return Ok(None);
    }
    let blocks = keys.positive("block_count")?;
    let plain = |ratio: usize| match ratio {
        0 => Ok(None),
        other => Err(keys.unsupported("attention.compress_ratios", other, "0")),
    };
    let layers = deepseek4::layers(&keys, (blocks, blocks), false, 0, &plain)?;
    let sources = keys.values().u32s("target_layers")?;
    if let Some(wrong) = sources.iter().find(|&&layer| layer as usize >= count) {
        return Err(keys.unsupported("target_layers", wrong, "layers of the model"));
    }
    if sources.is_empty() {
        return Err(keys.unsupported("target_layers", "empty", "layers of the model"));
    }
    let width = keys.positive("block_size")?;
    if width > MOST_TOKENS {
        return Err(keys.unsupported("block_size", width, "at most 16"));
    }
    let mask = tokens.values().u32("mask_token_id")?;
    if mask as usize >= vocab {
        return Err(tokens.unsupported("mask_token_id", mask, "a token of the model"));
    }
    let sources = sources.iter().map(|&layer| layer as usize).collect();
    Ok(Some(Spark { layers, sources, width, mask }))
}
