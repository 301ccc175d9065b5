//! Qwen2 and Qwen2.5 dense models: biases on the q, k and v projections.

use super::{Arch, Keys};
use crate::def::{Bias, Gqa, ModelDef, Pairs};
use crate::error::LoadError;

pub(super) const ARCH: Arch = Arch { names: &["qwen2"], build };

fn build(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    let gqa = Gqa { qkv_bias: Bias::Required, ..keys.gqa(Pairs::Halves)? };
    Ok(ModelDef { head_bias: Bias::Optional, ..keys.decoder(&gqa, &keys.dense()?)? })
}
