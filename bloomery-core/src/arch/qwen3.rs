//! Qwen3 dense models (0.6B to 32B): per-head query and key norms.

use super::{Arch, Keys};
use crate::def::{Gqa, ModelDef, Pairs};
use crate::error::LoadError;

pub(super) const ARCH: Arch = Arch { names: &["qwen3"], build };

fn build(keys: &Keys<'_>) -> Result<ModelDef, LoadError> {
    let gqa = Gqa { qk_norm: Some(keys.norm()?), ..keys.gqa(Pairs::Halves)? };
    keys.decoder(&gqa, &keys.dense()?)
}
