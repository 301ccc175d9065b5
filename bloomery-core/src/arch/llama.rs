//! Llama 2 and 3, Mistral and Mixtral: adjacent rotary pairs, because the converter permutes the rows of Q and K.

use super::{Arch, Keys};
use crate::def::{Bias, Gqa, ModelDef, Pairs, Rope};
use crate::error::LoadError;

pub(super) const ARCH: Arch = Arch { names: &["llama"], build };

fn build(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    let gqa = keys.gqa(Pairs::Adjacent)?;
    keys.only("rope.dimension_count", Some(gqa.rope.dims), gqa.head_dim, "equal to key_length")?;
    let rope = Rope { factors: true, ..gqa.rope };
    let gqa = Gqa { rope, qkv_bias: Bias::Optional, out_bias: Bias::Optional, ..gqa };
    let ffn = match keys.opt_count("expert_count")? {
        None | Some(0) => keys.dense()?,
        Some(_) => keys.moe()?,
    };
    keys.decoder(&gqa, &ffn)
}
