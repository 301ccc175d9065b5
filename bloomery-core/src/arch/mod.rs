//! One file per architecture: metadata in, [`ModelDef`] out.

mod decoder;
mod deepseek2;
mod deepseek4;
mod engrams;
mod gemma3;
mod glm5next;
mod llama;
mod qwen2;
mod qwen3;
mod qwen35;
mod qwen3moe;
mod qwen4exp;
mod routed;
pub(crate) mod spark;

use bloomery_gguf::Metadata;

use crate::def::ModelDef;
use crate::error::LoadError;
use decoder::Keys;

/// An architecture: the names it goes by in `general.architecture` and how to read its metadata.
struct Arch {
    names: &'static [&'static str],
    build: fn(&Keys<'_>) -> Result<ModelDef, LoadError>,
}

const ARCHITECTURES: &[Arch] = &[
    llama::ARCH,
    qwen2::ARCH,
    qwen3::ARCH,
    qwen3moe::ARCH,
    qwen35::MOE,
    qwen35::DENSE,
    qwen35::CLEF,
    deepseek2::ARCH,
    deepseek4::V4,
    deepseek4::V41,
    gemma3::ARCH,
    qwen4exp::ARCH,
    glm5next::ARCH,
];

/// Names of all architectures this engine runs.
pub fn supported() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.iter().flat_map(|arch| arch.names.iter().copied())
}

/// Reads the definition of the model from a file's metadata.
pub(crate) fn define(meta: &Metadata) -> Result<ModelDef, LoadError> {
    let name = meta.architecture()?;
    let arch = ARCHITECTURES.iter().find(|arch| arch.names.contains(&name)).ok_or_else(|| {
        LoadError::UnknownArchitecture { name: name.to_owned(), supported: supported().collect() }
    })?;
    (arch.build)(&Keys::new(meta, name))
}
