//! DeepSeek-V2-Lite, V2.5, V3, R1 and their kin: latent attention, some dense layers first, then routed experts beside shared ones.

use super::{Arch, Keys};
use crate::def::{
    Act, Bias, Dense, Ffn, Layer, Mixer, Mla, ModelDef, Moe, Pairs, Rope, Scaling, Scores, Shared,
};
use crate::error::LoadError;

pub(super) const ARCH: Arch = Arch { names: &["deepseek2"], build };

fn build(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    keys.only(
        "attention.temperature_scale",
        Some(keys.float("attention.temperature_scale", 0.0)?),
        0.0,
        "0",
    )?;
    let blocks = keys.positive("block_count")?;
    let drafting = keys.opt_count("nextn_predict_layers")?.unwrap_or(0);
    let count = blocks.checked_sub(drafting).filter(|&count| count > 0);
    let Some(count) = count else {
        return Err(keys.unsupported("nextn_predict_layers", drafting, "fewer than block_count"));
    };
    let (mixer, dense) = (Mixer::Mla(mla(keys)?), keys.dense()?);
    let leading = keys.opt_count("leading_dense_block_count")?.unwrap_or(0).min(count);
    let routed = if leading < count { Some(Ffn::Moe(moe(keys)?)) } else { None };
    let layer = |index: usize| {
        let routed = routed.as_ref().filter(|_| index >= leading);
        keys.layer(mixer.clone(), routed.unwrap_or(&dense).clone())
    };
    let layers = (0..count).map(layer).collect::<Result<Vec<Layer>, LoadError>>()?;
    let reserved = (count..blocks).map(|block| format!("blk.{block}.")).collect();
    Ok(ModelDef { reserved, ..keys.model(layers)? })
}

fn mla(keys: &Keys<'_>) -> Result<Mla, LoadError> {
    let length = |name: &str| match keys.opt_count(&format!("attention.{name}_mla"))? {
        Some(length) => Ok(length),
        None => keys.positive(&format!("attention.{name}")),
    };
    let (key, value) = (length("key_length")?, length("value_length")?);
    let turning = keys.positive("rope.dimension_count")?;
    if turning >= key || turning % 2 != 0 {
        return Err(keys.unsupported(
            "rope.dimension_count",
            turning,
            "an even number below the key's length",
        ));
    }
    let (rope, magnitude) = rope(keys, turning)?;
    Ok(Mla {
        heads: keys.positive("attention.head_count")?,
        nope: key - turning,
        rope,
        value,
        latent: keys.positive("attention.kv_lora_rank")?,
        q_latent: keys.opt_count("attention.q_lora_rank")?.filter(|&rank| rank > 0),
        norm: keys.norm()?,
        scale: magnitude * magnitude / (key as f32).sqrt(),
        index: None,
    })
}

/// The rotary embedding, whose cosines and sines are of magnitude 1, and what multiplies queries and keys instead: the published
/// models have `mscale = mscale_all_dim`, so the two cancel in the one and square in the other.
fn rope(keys: &Keys<'_>, turning: usize) -> Result<(Rope, f32), LoadError> {
    let rope = keys.rope(Pairs::Adjacent, turning)?;
    let Scaling::Yarn { factor, original_context, beta_fast, beta_slow, .. } = rope.scaling else {
        return Ok((rope, 1.0));
    };
    // Without it there are two readings, and converters write it wherever the model has one.
    let multiplier = keys.values().f32("rope.scaling.yarn_log_multiplier")?;
    let attention_factor = 1.0 / (1.0 + 0.1 * factor.ln());
    let scaling = Scaling::Yarn { factor, original_context, beta_fast, beta_slow, attention_factor };
    Ok((Rope { scaling, ..rope }, 1.0 + multiplier * factor.ln()))
}

fn moe(keys: &Keys<'_>) -> Result<Moe, LoadError> {
    let mut moe = keys.experts()?;
    if moe.router.scores == Scores::Softmax && moe.router.groups.is_some() {
        // V2 takes a group's largest score; no reference output of it is at hand.
        let count = keys.count("expert_group_count")?;
        return Err(keys.unsupported("expert_group_count", count, "1 where scores are a softmax"));
    }
    moe.router.bias = Bias::Optional;
    let shared = keys.opt_count("expert_shared_count")?.unwrap_or(0);
    moe.shared = (shared > 0)
        .then(|| Shared { network: Dense { width: shared * moe.width, act: Act::Silu }, gate: false });
    Ok(moe)
}
