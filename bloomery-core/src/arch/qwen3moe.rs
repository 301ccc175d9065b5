//! Qwen3-MoE (Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder): per-head query and key norms, every layer routed.

use super::{Arch, Keys};
use crate::def::{Gqa, ModelDef, Pairs};
use crate::error::LoadError;

pub(super) const ARCH: Arch = Arch { names: &["qwen3moe"], build };

fn build(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    let gqa = Gqa { qk_norm: Some(keys.norm()?), ..keys.gqa(Pairs::Halves)? };
    keys.decoder(&gqa, &keys.moe()?)
}
