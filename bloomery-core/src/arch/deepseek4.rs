//! DeepSeek-V4 and DeepSeek-V4.1-Flash: hyper-connections, attention to a window and to rows that stand for groups of positions, routed
//! experts beside a shared one; in V4.1 rows and choices that layers share, and engrams.

use super::{Arch, Keys, spark};
use crate::def::{
    Act, Bias, Candidates, Choice, Dense, Ffn, Guessing, Layer, Mixer, Mixing, ModelDef, Moe, NextToken,
    Pairs, Reading, Rope, Scaling, Scores, Shared, Streams, Summaries, Windowed,
};
use crate::error::LoadError;

pub(super) const V4: Arch = Arch { names: &["deepseek4"], build: v4 };
pub(super) const V41: Arch = Arch { names: &["deepseek41"], build: v41 };

fn v4(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    let blocks = keys.positive("block_count")?;
    let drafting = keys.opt_count("nextn_predict_layers")?.unwrap_or(0);
    let Some(count) = blocks.checked_sub(drafting).filter(|&count| count > 0) else {
        return Err(keys.unsupported("nextn_predict_layers", drafting, "fewer than block_count"));
    };
    let hashed = keys.opt_count("hash_layer_count")?.unwrap_or(0);
    let choice = choice(keys)?;
    let summaries = |ratio: usize| match ratio {
        0 => Ok(None),
        4 => Ok(Some(Summaries {
            positions: 4,
            shared: false,
            overlap: true,
            places: true,
            choice: Some(choice),
        })),
        128 => {
            Ok(Some(Summaries { positions: 128, shared: false, overlap: false, places: true, choice: None }))
        }
        other => Err(keys.unsupported("attention.compress_ratios", other, "0, 4 or 128")),
    };
    let mut layers = layers(keys, (blocks, count), true, hashed, &summaries)?;
    let draft = layers.split_off(count).pop();
    let draft = draft.map(|layer| Guessing::Next(Box::new(NextToken { block: count, layer })));
    // Of several blocks the first is the one that follows the trunk.
    let reserved = (count + 1..blocks).map(|block| format!("blk.{block}.")).collect();
    let streams = Some(streams(keys, Reading::OwnAndHead)?);
    Ok(ModelDef { streams, draft, reserved, ..keys.model(layers)? })
}

fn v41(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    let count = keys.positive("block_count")?;
    keys.only("hash_layer_count", keys.opt_count("hash_layer_count")?, 0, "0")?;
    let choice = Choice { candidates: Some(candidates(keys)?), ..choice(keys)? };
    let summaries = |positions: usize| {
        if positions > 64 || !64_usize.is_multiple_of(positions.max(1)) {
            return Err(keys.unsupported("attention.compress_ratios", positions, "0 or a divisor of 64"));
        }
        let choice = Some(choice);
        let summaries = Summaries { positions, shared: true, overlap: false, places: false, choice };
        Ok((positions > 0).then_some(summaries))
    };
    let layers = layers(keys, (count, count), false, 0, &summaries)?;
    let streams = Some(streams(keys, Reading::Lagged)?);
    let model = keys.model(layers)?;
    let spark = spark::find(keys, count, model.vocab)?;
    let blocks = count + spark.as_ref().map_or(0, |spark| spark.layers.len());
    // Of image tokens.
    let mut reserved: Vec<String> = (0..blocks).map(|layer| format!("blk.{layer}.exp_probs_b_vl")).collect();
    // How sure it is of a guess. What that was made for is not published.
    reserved.extend(spark.is_some().then(|| format!("{}.conf_proj.", spark::NAME)));
    let draft = spark.map(Guessing::Spark);
    Ok(ModelDef { streams, ngrams: keys.engrams(count)?, draft, reserved, ..model })
}

fn streams(keys: &Keys<'_>, reading: Reading) -> Result<Streams, LoadError> {
    let rounds = keys.positive("hyper_connection.sinkhorn_iterations")?;
    let eps = keys.values().f32("hyper_connection.epsilon")?;
    let mixing = Mixing::Hyper { rounds, eps, reading };
    Ok(Streams { count: keys.positive("hyper_connection.count")?, mixing })
}

/// Layers of the model, and that of the first block after them.
pub(super) fn layers(
    keys: &Keys<'_>,
    (blocks, count): (usize, usize),
    head_norm: bool,
    hashed: usize,
    summaries: &dyn Fn(usize) -> Result<Option<Summaries>, LoadError>,
) -> Result<Vec<Layer>, LoadError> {
    let values = keys.values();
    let ratios = values.u32s("attention.compress_ratios")?;
    if ratios.len() < count {
        let supported = "one for each layer";
        return Err(keys.unsupported(
            "attention.compress_ratios",
            format!("{} ratios", ratios.len()),
            supported,
        ));
    }
    // Lists may leave out the blocks, which then have the last layer's.
    let limits = |key: &str| match values.opt_per_layer_f32(key, blocks) {
        Ok(limits) => Ok(limits),
        Err(error) if blocks == count => Err(error),
        Err(_) => values.opt_per_layer_f32(key, count).map(|limits| {
            limits.map(|mut limits| {
                limits.resize(blocks, limits[count - 1]);
                limits
            })
        }),
    };
    let routed = limits("swiglu_clamp_exp")?.unwrap_or_else(|| vec![0.0; blocks]);
    let plain = limits("swiglu_clamp_shexp")?.unwrap_or_else(|| routed.clone());
    let layer = |index: usize| {
        let summaries = summaries(ratios.get(index).map_or(0, |&ratio| ratio as usize))?;
        let mixer = Mixer::Windowed(Windowed { head_norm, ..windowed(keys, summaries)? });
        let mut moe = moe(keys, Act::clamped(plain[index]), Act::clamped(routed[index]))?;
        if index < hashed {
            (moe.router.by_token, moe.router.bias) = (true, Bias::None);
        }
        keys.layer(mixer, Ffn::Moe(moe))
    };
    (0..blocks.min(count + 1)).map(layer).collect()
}

fn windowed(keys: &Keys<'_>, summaries: Option<Summaries>) -> Result<Windowed, LoadError> {
    let heads = keys.positive("attention.head_count")?;
    let head_dim = keys.positive("attention.key_length")?;
    keys.only("attention.head_count_kv", Some(keys.count("attention.head_count_kv")?), 1, "1")?;
    let value = Some(keys.count("attention.value_length")?);
    keys.only("attention.value_length", value, head_dim, "equal to key_length")?;
    let out_groups = keys.positive("attention.output_group_count")?;
    if !heads.is_multiple_of(out_groups) {
        let supported = "a divisor of attention.head_count";
        return Err(keys.unsupported("attention.output_group_count", out_groups, supported));
    }
    Ok(Windowed {
        heads,
        head_dim,
        q_latent: keys.positive("attention.q_lora_rank")?,
        norm: keys.norm()?,
        head_norm: false,
        rope: rope(keys, head_dim, summaries.is_some())?,
        scale: 1.0 / (head_dim as f32).sqrt(),
        window: keys.positive("attention.sliding_window")?,
        out_groups,
        out_rank: keys.positive("attention.output_lora_rank")?,
        summaries,
    })
}

/// Layers with a window alone turn by the plain base; the others by one of their own, stretched by YaRN without a magnitude.
fn rope(keys: &Keys<'_>, head_dim: usize, far: bool) -> Result<Rope, LoadError> {
    let dims = keys.positive("rope.dimension_count")?;
    if dims % 2 != 0 || dims > head_dim {
        return Err(keys.unsupported("rope.dimension_count", dims, "an even number up to key_length"));
    }
    let rope = keys.rope(Pairs::Adjacent, dims)?;
    if !far {
        return Ok(Rope { scaling: Scaling::None, ..rope });
    }
    let base = keys.values().f32("attention.compress_rope_freq_base")?;
    let scaling = match rope.scaling {
        Scaling::Yarn { factor, original_context, beta_fast, beta_slow, .. } => {
            let attention_factor = 1.0 / (1.0 + 0.1 * factor.ln());
            Scaling::Yarn { factor, original_context, beta_fast, beta_slow, attention_factor }
        }
        other => other,
    };
    Ok(Rope { base, scaling, ..rope })
}

fn choice(keys: &Keys<'_>) -> Result<Choice, LoadError> {
    Ok(Choice {
        heads: keys.positive("attention.indexer.head_count")?,
        width: keys.positive("attention.indexer.key_length")?,
        keep: keys.positive("attention.indexer.top_k")?,
        candidates: None,
    })
}

/// Files without the keys mean the published model's.
fn candidates(keys: &Keys<'_>) -> Result<Candidates, LoadError> {
    let key = |name: &str, default| Ok::<_, LoadError>(keys.opt_count(name)?.unwrap_or(default));
    let layer = keys.opt_count("attention.candidate_source_layer_id")?;
    let size = key("attention.candidate_block_size", 8)?;
    let keep = key("attention.candidate_topk_blocks", 2048)?;
    let top = keys.positive("attention.indexer.top_k")?;
    // The newest span may have one row.
    if size == 0 || keep == 0 || (keep - 1) * size + 1 < top {
        let supported = "enough blocks for attention.indexer.top_k rows";
        return Err(keys.unsupported("attention.candidate_topk_blocks", keep, supported));
    }
    Ok(Candidates { layer: layer.unwrap_or(20), required: layer.is_some(), size, keep })
}

fn moe(keys: &Keys<'_>, shared: Act, routed: Act) -> Result<Moe, LoadError> {
    keys.only("expert_gating_func", Some(keys.count("expert_gating_func")?), 4, "4 (root of softplus)")?;
    keys.only("expert_group_count", keys.opt_count("expert_group_count")?, 1, "1")?;
    let mut moe = keys.experts()?;
    (moe.router.scores, moe.router.bias, moe.act) = (Scores::SqrtSoftplus, Bias::Required, routed);
    let count = keys.positive("expert_shared_count")?;
    moe.shared = Some(Shared { network: Dense { width: count * moe.width, act: shared }, gate: false });
    Ok(moe)
}
