//! Qwen3.5 and Qwen3.6, routed and dense, and Clef-Flash's trunk: gated delta nets, and gated attention in every fourth layer.

use bloomery_gguf::Value;

use super::{Arch, Keys};
use crate::def::{
    Act, Decay, DeltaNet, Dense, Ffn, Gqa, Guessing, Layer, Mixer, ModelDef, Moe, NextToken, OutGate, Pairs,
    Router, Scores, Shared,
};
use crate::error::LoadError;

pub(super) const MOE: Arch = Arch { names: &["qwen35moe"], build: moe };
pub(super) const DENSE: Arch = Arch { names: &["qwen35"], build: dense };
pub(super) const CLEF: Arch = Arch { names: &["clef"], build: clef };

fn moe(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    let moe = keys.experts()?;
    keys.only("expert_gating_func", keys.opt_count("expert_gating_func")?, 1, "1 (softmax)")?;
    keys.only("expert_weights_norm", keys.values().opt_bool("expert_weights_norm")?, true, "true")?;
    debug_assert!(moe.router.scores == Scores::Softmax);
    let width = match keys.opt_count("expert_shared_feed_forward_length")? {
        Some(width) => width,
        None => keys.positive("feed_forward_length")?,
    };
    let shared = Some(Shared { network: Dense { width, act: Act::Silu }, gate: true });
    let router = Router { renormalize: true, ..moe.router };
    build(keys, &Ffn::Moe(Moe { router, shared, ..moe }))
}

fn dense(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    build(keys, &keys.dense()?)
}

/// The same trunk with a head for decisions, which is not part of the program.
fn clef(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    let mut model = dense(keys)?;
    model.reserved.extend(["decision.", "dec.blk.", "token_types."].map(str::to_owned));
    Ok(model)
}

fn build(keys: &Keys<'_>, ffn: &Ffn) -> Result<ModelDef, LoadError> {
    let blocks = keys.positive("block_count")?;
    let drafting = keys.opt_count("nextn_predict_layers")?.unwrap_or(0);
    let Some(count) = blocks.checked_sub(drafting).filter(|&count| count > 0) else {
        return Err(keys.unsupported("nextn_predict_layers", drafting, "fewer than block_count"));
    };
    let gqa = Gqa { qk_norm: Some(keys.norm()?), gate: true, ..keys.gqa(Pairs::Halves)? };
    sections(keys, gqa.rope.dims)?;
    let (net, is_delta) = (delta(keys)?, kinds(keys, count)?);
    let layer = |&is_delta: &bool| {
        let mixer = if is_delta { Mixer::Delta(net) } else { Mixer::Gqa(gqa.clone()) };
        Ok(Layer { ffn_norm: "post_attention_norm", ..keys.layer(mixer, ffn.clone())? })
    };
    let layers = is_delta.iter().map(layer).collect::<Result<_, LoadError>>()?;
    // Of several blocks the first is the one that follows the trunk.
    let reserved = (count + 1..blocks).map(|block| format!("blk.{block}.")).collect();
    let draft = match drafting {
        0 => None,
        _ => Some(Guessing::Next(Box::new(NextToken { block: count, layer: layer(&false)? }))),
    };
    Ok(ModelDef { draft, reserved, ..keys.model(layers)? })
}

/// Sections divide the pairs among time, height and width, which are one number for text.
pub(super) fn sections(keys: &Keys<'_>, turning: usize) -> Result<(), LoadError> {
    let key = "rope.dimension_sections";
    let pairs = keys.values().u32s(key)?.iter().sum::<u32>() as usize;
    let expected = turning / 2;
    if pairs == expected {
        Ok(())
    } else {
        Err(keys.unsupported(key, pairs, "half of rope.dimension_count in all"))
    }
}

pub(super) fn delta(keys: &Keys<'_>) -> Result<DeltaNet, LoadError> {
    let net = DeltaNet {
        key_heads: keys.positive("ssm.group_count")?,
        value_heads: keys.positive("ssm.time_step_rank")?,
        head_dim: keys.positive("ssm.state_size")?,
        taps: keys.positive("ssm.conv_kernel")?,
        norm: keys.norm()?,
        decay: Decay::Head,
        gate: OutGate::Silu,
    };
    if !net.value_heads.is_multiple_of(net.key_heads) {
        return Err(keys.unsupported("ssm.time_step_rank", net.value_heads, "a multiple of ssm.group_count"));
    }
    let inner = keys.count("ssm.inner_size")?;
    if inner != net.inner() {
        return Err(keys.unsupported("ssm.inner_size", inner, "ssm.time_step_rank * ssm.state_size"));
    }
    Ok(net)
}

/// Which layers of the trunk are delta nets.
pub(super) fn kinds(keys: &Keys<'_>, count: usize) -> Result<Vec<bool>, LoadError> {
    let key = "attention.recurrent_layers";
    let list: Vec<bool> = match keys.values().get(key) {
        None => {
            let interval = keys.opt_count("full_attention_interval")?.unwrap_or(4).max(1);
            return Ok((1..=count).map(|layer| layer % interval != 0).collect());
        }
        Some(Value::Array(array)) if array.element_type() == bloomery_gguf::ValueType::Bool => {
            keys.values().bools(key)?.to_vec()
        }
        Some(_) => keys.values().u32s(key)?.iter().map(|&flag| flag != 0).collect(),
    };
    match list.get(..count) {
        Some(trunk) => Ok(trunk.to_vec()),
        None => Err(keys.unsupported(key, list.len(), "as many entries as block_count")),
    }
}
