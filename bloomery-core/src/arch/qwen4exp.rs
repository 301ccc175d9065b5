//! Qwen3.8-Flash-Next: residual streams behind gates, delta nets, attention to chosen blocks in every fourth layer, hashed n-grams.

use super::qwen35::{delta, kinds, sections};
use super::{Arch, Keys};
use crate::def::{
    Act, DeltaNet, Dense, Ffn, Gqa, Guessing, Index, Layer, Mixer, Mixing, ModelDef, Moe, NextToken,
    NgramKind, Ngrams, OutGate, Pairs, Pooling, Router, Shared, Streams,
};
use crate::error::LoadError;

pub(super) const ARCH: Arch = Arch { names: &["qwen4exp"], build };

fn build(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    let blocks = keys.positive("block_count")?;
    let drafting = keys.opt_count("nextn_predict_layers")?.unwrap_or(0);
    let Some(count) = blocks.checked_sub(drafting).filter(|&count| count > 0) else {
        return Err(keys.unsupported("nextn_predict_layers", drafting, "fewer than block_count"));
    };
    let gqa = Gqa { qk_norm: Some(keys.norm()?), gate: true, ..keys.gqa(Pairs::Halves)? };
    sections(keys, gqa.rope.dims)?;
    // The published model has the sigmoid, and no key that could say otherwise.
    let net = DeltaNet { gate: OutGate::Sigmoid, ..delta(keys)? };
    let (is_delta, ratios, ffn) = (kinds(keys, count)?, ratios(keys, blocks)?, Ffn::Moe(moe(keys)?));
    let layer = |(&is_delta, &ratio): (&bool, &u32)| {
        let mixer = match is_delta {
            true => Mixer::Delta(net),
            false => Mixer::Gqa(Gqa { index: index(keys, ratio)?, ..gqa.clone() }),
        };
        keys.layer(mixer, ffn.clone())
    };
    let layers = is_delta.iter().zip(&ratios).map(layer).collect::<Result<Vec<Layer>, LoadError>>()?;
    let draft = match ratios.get(count) {
        Some(ratio) => {
            Some(Guessing::Next(Box::new(NextToken { block: count, layer: layer((&false, ratio))? })))
        }
        None => None,
    };
    let ngrams = ngrams(keys)?;
    if let Some(ngrams) = ngrams.iter().find(|ngrams| is_delta.get(ngrams.layer) != Some(&true)) {
        return Err(keys.unsupported("ple.layers", ngrams.layer, "a layer with a delta net"));
    }
    let low_rank = keys.positive("hyper_connection.low_rank")?;
    let streams =
        Streams { count: keys.positive("hyper_connection.count")?, mixing: Mixing::Gated { low_rank } };
    // Of several blocks the first is the one that follows the trunk.
    let reserved = (count + 1..blocks).map(|block| format!("blk.{block}.")).collect();
    Ok(ModelDef { streams: Some(streams), ngrams, draft, reserved, ..keys.model(layers)? })
}

fn moe(keys: &Keys<'_>) -> Result<Moe, LoadError> {
    keys.only("expert_gating_func", keys.opt_count("expert_gating_func")?, 1, "1 (softmax)")?;
    keys.only("expert_weights_norm", keys.values().opt_bool("expert_weights_norm")?, true, "true")?;
    let moe = keys.experts()?;
    let width = keys.positive("expert_shared_feed_forward_length")?;
    let shared = Some(Shared { network: Dense { width, act: Act::Silu }, gate: true });
    let router = Router { renormalize: true, ..moe.router };
    Ok(Moe { router, shared, ..moe })
}

/// Positions of an indexed block, for every layer; 0 where all positions are seen.
fn ratios(keys: &Keys<'_>, blocks: usize) -> Result<Vec<u32>, LoadError> {
    let ratios = keys.values().opt_per_layer_u32("attention.compress_ratios", blocks)?;
    Ok(ratios.unwrap_or_else(|| vec![0; blocks]))
}

fn index(keys: &Keys<'_>, block: u32) -> Result<Option<Index>, LoadError> {
    let block = block as usize;
    if block == 0 {
        return Ok(None);
    }
    let top = keys.positive("attention.indexer.top_k")?;
    if !top.is_multiple_of(block) {
        return Err(keys.unsupported("attention.indexer.top_k", top, "a multiple of the compress ratio"));
    }
    Ok(Some(Index {
        heads: keys.positive("attention.indexer.head_count")?,
        width: keys.positive("attention.indexer.key_length")?,
        block,
        keep: top / block,
        pooling: Pooling::Mean { norm: keys.norm()? },
    }))
}

fn ngrams(keys: &Keys<'_>) -> Result<Vec<Ngrams>, LoadError> {
    let Some(layers) = keys.values().opt_u32s("ple.layers")? else { return Ok(Vec::new()) };
    let [layer] = layers[..] else {
        return Err(keys.unsupported("ple.layers", format!("{layers:?}"), "one layer"));
    };
    let (longest, each) = (keys.positive("ple.ngram_size")?, keys.positive("ple.heads_per_ngram")?);
    let multipliers = keys.values().u64s("ple.layer_multipliers")?;
    if longest < 2 || multipliers.len() != longest {
        let found = format!("{} for n-grams of up to {longest}", multipliers.len());
        return Err(keys.unsupported("ple.layer_multipliers", found, "one for each token of two or more"));
    }
    let (starts, sizes) =
        (keys.values().u64s("ple.head_offsets")?, keys.values().u64s("ple.head_vocab_sizes")?);
    let heads = (longest - 1) * each;
    if starts.len() != heads || sizes.len() != heads || sizes.contains(&0) {
        let found = format!("{} and {} of {heads} heads", starts.len(), sizes.len());
        return Err(keys.unsupported("ple.head_vocab_sizes", found, "a positive number for each head"));
    }
    Ok(vec![Ngrams {
        layer: layer as usize,
        width: keys.positive("embedding_length_per_layer_input")?,
        multipliers,
        heads: starts.into_iter().zip(sizes).collect(),
        boundary: keys.values().u32("ple.eos_token_id")?,
        cuts: true,
        folded: None,
        kind: NgramKind::PerLayer { taps: keys.positive("ple.conv_kernel")? },
    }])
}
