//! Gemma 3 text models: local layers with a window between global ones, each kind with a rotary base of its own; norms before
//! and after both parts of a layer.

use bloomery_gguf::Value;

use super::{Arch, Keys};
use crate::def::{Act, Dense, Ffn, Gqa, Layer, Mixer, ModelDef, Pairs, Rope, Scaling};
use crate::error::LoadError;

pub(super) const ARCH: Arch = Arch { names: &["gemma3"], build };

/// Layers of the 27B model, whose queries are scaled by the width per head rather than the head's.
const LAYERS_27B: usize = 62;

fn build(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    keys.only("final_logit_softcapping", Some(keys.float("final_logit_softcapping", 0.0)?), 0.0, "0")?;
    let (count, hidden) = (keys.positive("block_count")?, keys.positive("embedding_length")?);
    let gqa = Gqa { qk_norm: Some(keys.norm()?), ..keys.gqa(Pairs::Halves)? };
    let global = match count {
        LAYERS_27B => Gqa { scale: 1.0 / (hidden as f32 / gqa.heads as f32).sqrt(), ..gqa },
        _ => gqa,
    };
    let window = keys.opt_count("attention.sliding_window")?.filter(|&window| window > 0);
    let base = keys.float("rope.freq_base_swa", 10_000.0)?;
    let rope = Rope { base, scaling: Scaling::None, ..global.rope.clone() };
    let local = Gqa { window, rope, ..global.clone() };
    let ffn = Ffn::Dense(Dense { width: keys.positive("feed_forward_length")?, act: Act::GeluTanh });
    let is_local = pattern(keys, count)?;
    let layer = |index: usize| {
        let gqa = if window.is_some() && is_local(index) { &local } else { &global };
        Ok(Layer { post_norms: true, ..keys.layer(Mixer::Gqa(gqa.clone()), ffn.clone())? })
    };
    let layers = (0..count).map(layer).collect::<Result<_, LoadError>>()?;
    Ok(ModelDef { embedding_scale: (hidden as f32).sqrt(), ..keys.model(layers)? })
}

/// Which layers are local: all but every sixth, or as the file says.
fn pattern(keys: &Keys<'_>, count: usize) -> Result<impl Fn(usize) -> bool, LoadError> {
    let key = "attention.sliding_window_pattern";
    let list = match keys.values().get(key) {
        Some(Value::Array(_)) => Some(keys.values().per_layer_bool(key, count)?),
        _ => None,
    };
    let period = if list.is_some() { None } else { keys.opt_count(key)? };
    Ok(move |index: usize| match (&list, period.unwrap_or(6)) {
        (Some(list), _) => list[index],
        (None, 0) => true,
        (None, period) => index % period < period - 1,
    })
}
