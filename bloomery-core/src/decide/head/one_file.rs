//! A head inside the file of its model: architecture `clef`.

use std::collections::BTreeMap;

use bloomery_gguf::{Gguf, Tensor};

use super::dims::Dims;
use super::tensors::{Tensors, compare};
use crate::error::LoadError;

/// What tensors of a head begin with.
const PREFIXES: [&str; 3] = ["decision.", "dec.blk.", "token_types."];
/// What the release takes for the head's LayerNorms. Files say it too.
pub(super) const EPS: f32 = 1e-5;

/// Whether a tensor of a model with this architecture belongs to its head.
pub(crate) fn is_head_tensor(architecture: &str, name: &str) -> bool {
    architecture == "clef" && PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The epsilon of the head's LayerNorms.
pub(super) fn epsilon(gguf: &Gguf) -> Result<f32, LoadError> {
    let keys = gguf.metadata().scoped("clef");
    Ok(keys.opt_f32("attention.layer_norm_epsilon")?.unwrap_or(EPS))
}

/// Reads the sizes and checks that all tensors are there.
pub(super) fn read_dims(gguf: &Gguf, hidden: usize) -> Result<Dims, LoadError> {
    let keys = gguf.metadata().scoped("clef");
    let count = |key: &str| -> Result<usize, LoadError> { Ok(keys.u32(key)? as usize) };
    let dim = |name: &str, at: usize| -> Result<usize, LoadError> {
        let tensor = gguf.tensor(name).ok_or_else(|| LoadError::MissingTensor { name: name.to_owned() })?;
        Ok(tensor.dims.get(at).map_or(1, |&size| usize::try_from(size).unwrap_or(usize::MAX)))
    };
    let dims = Dims {
        hidden,
        width: dim("decision.proj_memory.weight", 1)?,
        feed_forward: match count("decision.routing_block_count")? + count("decision.block_count")? {
            0 => 1,
            _ => dim("dec.blk.0.ffn_up.weight", 1)?,
        },
        heads: count("decision.head_count")?,
        routing: count("decision.routing_block_count")?,
        decoder: count("decision.block_count")?,
    }
    .checked()?;
    let mut wanted: BTreeMap<String, Vec<usize>> = dims.tensors().into_iter().collect();
    let mut found: BTreeMap<String, Vec<usize>> = gguf
        .tensors()
        .filter(|tensor| is_head_tensor("clef", &tensor.name))
        .map(|tensor| (tensor.name.clone(), shape(tensor)))
        .collect();
    // Writers drop a last dimension of 1, or keep it.
    for shapes in [&mut wanted, &mut found] {
        if let Some(shape) = shapes.get_mut("decision.scorer_out.weight") {
            shape.retain(|&size| size != 1);
        }
    }
    compare(wanted, found)?;
    Ok(dims)
}

/// Rows before columns.
fn shape(tensor: &Tensor) -> Vec<usize> {
    tensor.dims.iter().rev().map(|&size| usize::try_from(size).unwrap_or(usize::MAX)).collect()
}

/// Reads the weights.
pub(super) fn read_weights(gguf: &Gguf, dims: &Dims) -> Result<Tensors, LoadError> {
    let mut tensors = Tensors::default();
    for (name, _) in dims.tensors() {
        let tensor = gguf.require(&name)?;
        let mut values = Vec::new();
        tensors.append(&name, tensor.format, gguf.data(tensor), &mut values)?;
        tensors.insert(name, values);
    }
    Ok(tensors)
}
