//! GLM-5.3-Flash: hyper-connections, delta nets whose channels decay by themselves, latent attention without positions to chosen
//! blocks in every fourth layer.

use super::{Arch, Keys};
use crate::def::{
    Act, Bias, Decay, DeltaNet, Dense, Ffn, Guessing, Index, Layer, Mixer, Mixing, Mla, ModelDef, Moe,
    NextToken, Norm, OutGate, Pairs, Pooling, Reading, Shared, Streams,
};
use crate::error::LoadError;

pub(super) const ARCH: Arch = Arch { names: &["glm5next", "glm5-next"], build };

fn build(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    let blocks = keys.positive("block_count")?;
    let drafting = keys.opt_count("nextn_predict_layers")?.unwrap_or(0);
    let Some(count) = blocks.checked_sub(drafting).filter(|&count| count > 0) else {
        return Err(keys.unsupported("nextn_predict_layers", drafting, "fewer than block_count"));
    };
    let values = keys.values();
    let is_latent = values.per_layer_u32("attention.head_count_kv", blocks)?;
    let heads = values.per_layer_u32("attention.head_count", blocks)?[0] as usize;
    let (mla, net) = (mla(keys, heads)?, kda(keys, heads)?);
    let limits = |key: &str| values.opt_per_layer_f32(key, blocks);
    let routed = limits("swiglu_clamp_exp")?.unwrap_or_else(|| vec![0.0; blocks]);
    let plain = limits("swiglu_clamp_shexp")?.unwrap_or_else(|| routed.clone());
    let leading = keys.opt_count("leading_dense_block_count")?.unwrap_or(0).min(count);
    let layer = |index: usize| {
        let mixer = match is_latent[index] {
            0 => Mixer::Delta(net),
            1 => Mixer::Mla(mla.clone()),
            other => return Err(keys.unsupported("attention.head_count_kv", other, "0 or 1")),
        };
        let (shared, routed) = (Act::clamped(plain[index]), Act::clamped(routed[index]));
        let ffn = match index < leading {
            true => Ffn::Dense(Dense { width: keys.positive("feed_forward_length")?, act: shared }),
            false => Ffn::Moe(moe(keys, shared, routed)?),
        };
        keys.layer(mixer, ffn)
    };
    let layers = (0..count).map(layer).collect::<Result<Vec<Layer>, LoadError>>()?;
    let mixing = Mixing::Hyper {
        rounds: keys.positive("hyper_connection.sinkhorn_iterations")?,
        eps: values.f32("hyper_connection.epsilon")?,
        reading: Reading::Own,
    };
    let streams = Streams { count: keys.positive("hyper_connection.count")?, mixing };
    let draft = match drafting {
        0 => None,
        _ => Some(Guessing::Next(Box::new(NextToken { block: count, layer: layer(count)? }))),
    };
    // Of several blocks the first is the one that follows the trunk.
    let reserved = (count + 1..blocks).map(|block| format!("blk.{block}.")).collect();
    Ok(ModelDef { streams: Some(streams), draft, reserved, ..keys.model(layers)? })
}

fn mla(keys: &Keys<'_>, heads: usize) -> Result<Mla, LoadError> {
    keys.only("rope.dimension_count", Some(keys.count("rope.dimension_count")?), 0, "0")?;
    let key = keys.positive("attention.key_length_mla")?;
    Ok(Mla {
        heads,
        nope: key,
        rope: keys.rope(Pairs::Adjacent, 0)?,
        value: keys.positive("attention.value_length_mla")?,
        latent: keys.positive("attention.kv_lora_rank")?,
        q_latent: Some(keys.positive("attention.q_lora_rank")?),
        norm: keys.norm()?,
        scale: 1.0 / (key as f32).sqrt(),
        index: Some(index(keys)?),
    })
}

fn index(keys: &Keys<'_>) -> Result<Index, LoadError> {
    let values = keys.values();
    if values.opt_bools("attention.indexer.types")?.is_some_and(|all| all.contains(&false)) {
        let key = "attention.indexer.types";
        return Err(keys.unsupported(key, false, "an index of its own in every layer"));
    }
    let tail = values.opt_bool("attention.indexer.kpool_select_tail")?;
    keys.only("attention.indexer.kpool_select_tail", tail, true, "true")?;
    let block = match keys.opt_count("attention.indexer.kpool")? {
        Some(block) => block,
        None => keys.positive("attention.indexer.block_size")?,
    };
    let top = keys.positive("attention.indexer.top_k")?;
    if block == 0 || !top.is_multiple_of(block) {
        return Err(keys.unsupported(
            "attention.indexer.top_k",
            top,
            "a multiple of attention.indexer.kpool",
        ));
    }
    Ok(Index {
        heads: keys.positive("attention.indexer.head_count")?,
        width: keys.positive("attention.indexer.key_length")?,
        block,
        keep: top / block,
        pooling: Pooling::Softmax { eps: keys.float("attention.layer_norm_epsilon", 1e-6)? },
    })
}

fn kda(keys: &Keys<'_>, heads: usize) -> Result<DeltaNet, LoadError> {
    let head_dim = match keys.opt_count("kda.head_dim")? {
        Some(dim) => dim,
        None => keys.positive("ssm.state_size")?,
    };
    // Without a bound the decay is another function.
    let bound = keys.values().f32("kda.gate_lower_bound")?;
    if bound >= 0.0 || !bound.is_finite() {
        return Err(keys.unsupported("kda.gate_lower_bound", bound, "a number below 0"));
    }
    Ok(DeltaNet {
        key_heads: heads,
        value_heads: heads,
        head_dim,
        taps: keys.positive("ssm.conv_kernel")?,
        norm: Norm { eps: keys.norm()?.eps },
        decay: Decay::Channel { bound },
        gate: OutGate::Sigmoid,
    })
}

fn moe(keys: &Keys<'_>, shared: Act, routed: Act) -> Result<Moe, LoadError> {
    keys.only("expert_gating_func", keys.opt_count("expert_gating_func")?, 2, "2 (sigmoid)")?;
    keys.only("expert_group_count", keys.opt_count("expert_group_count")?, 1, "1")?;
    let mut moe = keys.experts()?;
    moe.router.scores = crate::def::Scores::Sigmoid;
    moe.router.bias = Bias::Required;
    let count = keys.opt_count("expert_shared_count")?.unwrap_or(0);
    let width = match keys.opt_count("expert_shared_feed_forward_length")? {
        Some(width) => width,
        None => moe.width * count.max(1),
    };
    if count != 1 {
        return Err(keys.unsupported("expert_shared_count", count, "1"));
    }
    moe.act = routed;
    moe.shared = Some(Shared { network: Dense { width, act: shared }, gate: false });
    Ok(moe)
}
