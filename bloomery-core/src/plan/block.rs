//! What guesses the next tokens and is a file of its own, brought into the model it belongs to.

use std::path::Path;

use bloomery_gguf::{Array, Gguf, Metadata, Value};

use crate::arch::spark;
use crate::error::LoadError;

/// The model as it would be with the block in its file.
pub(super) fn join(trunk: Gguf, path: &Path) -> Result<Gguf, LoadError> {
    let block = Gguf::open(path)?;
    let wrong = |why: String| LoadError::NotABlock { path: path.to_owned(), why };
    let name = trunk.metadata().architecture()?.to_owned();
    let other = block.metadata().architecture()?;
    if other == spark::NAME {
        return beside(trunk, block, &name, path);
    }
    if other != name {
        return Err(wrong(format!("its architecture is `{other}`, the model's `{name}`")));
    }
    let count = |gguf: &Gguf, key: &str| Ok::<_, LoadError>(gguf.metadata().scoped(&name).opt_u32(key)?);
    let layers = count(&trunk, "block_count")?.unwrap_or(0);
    if count(&trunk, "nextn_predict_layers")?.unwrap_or(0) > 0 {
        return Err(wrong("the model's own file has one".to_owned()));
    }
    let drafting = count(&block, "nextn_predict_layers")?.unwrap_or(0);
    if drafting == 0 {
        return Err(wrong(format!("`{name}.nextn_predict_layers` says that it has none")));
    }
    let all = count(&block, "block_count")?.unwrap_or(0);
    if all.checked_sub(drafting) != Some(layers) {
        return Err(wrong(format!(
            "it follows {} layers, the model has {layers}",
            i64::from(all) - i64::from(drafting)
        )));
    }
    let metadata = metadata(&trunk, &block, &name, layers as usize)?;
    let own: Vec<String> = (layers..all).map(|layer| format!("blk.{layer}.")).collect();
    let joined = |tensor: &str| own.iter().any(|start| tensor.starts_with(start)).then(|| tensor.to_owned());
    Ok(trunk.join(block, metadata, joined)?)
}

/// The model with the keys of layers that guess beside its own, and their tensors after those of its layers.
fn beside(trunk: Gguf, block: Gguf, name: &str, path: &Path) -> Result<Gguf, LoadError> {
    let wrong = |why: String| LoadError::NotABlock { path: path.to_owned(), why };
    if name != spark::TRUNK {
        return Err(wrong(format!(
            "its architecture is `{}`, which guesses for `{}`, not for `{name}`",
            spark::NAME,
            spark::TRUNK
        )));
    }
    for key in ["embedding_length", "hyper_connection.count"] {
        let [own, other] = [(&trunk, name), (&block, spark::NAME)]
            .map(|(gguf, prefix)| gguf.metadata().scoped(prefix).u32(key));
        let (own, other) = (own?, other?);
        if own != other {
            return Err(wrong(format!("its `{key}` is {other}, the model's {own}")));
        }
    }
    let layers = trunk.metadata().scoped(name).u32("block_count")?;
    let mine = |key: &str| key == spark::MASK || key.starts_with(&format!("{}.", spark::NAME));
    let own = trunk.metadata().iter().filter(|(key, _)| !mine(key));
    let pairs = own.chain(block.metadata().iter().filter(|(key, _)| mine(key)));
    let metadata = Metadata::from_pairs(pairs.map(|(key, value)| (key.to_owned(), value.clone())))?;
    let joined = |tensor: &str| {
        let layer = tensor.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        let number = layer.and_then(|(number, rest)| Some((number.parse::<u32>().ok()?, rest)));
        Some(match number {
            Some((number, rest)) => format!("blk.{}.{rest}", layers.saturating_add(number)),
            None => format!("{}.{tensor}", spark::NAME),
        })
    };
    Ok(trunk.join(block, metadata, joined)?)
}

/// The model's keys; of those that count layers, and of lists with an entry for each, also the block's part.
fn metadata(trunk: &Gguf, block: &Gguf, name: &str, layers: usize) -> Result<Metadata, LoadError> {
    let (count, drafting) = (format!("{name}.block_count"), format!("{name}.nextn_predict_layers"));
    let of_block = |key: &str| block.metadata().get(key).cloned();
    let merged = |(key, value): (&str, &Value)| {
        let value = match (value, of_block(key)) {
            (_, Some(value)) if key == count => value,
            (Value::Array(array), Some(Value::Array(longer))) if key.starts_with(name) => {
                Value::Array(extended(array, &longer, layers))
            }
            (value, _) => value.clone(),
        };
        (key.to_owned(), value)
    };
    let pairs = trunk.metadata().iter().filter(|(key, _)| *key != drafting).map(merged);
    Ok(Metadata::from_pairs(pairs.chain(of_block(&drafting).map(|value| (drafting.clone(), value))))?)
}

/// A list with an entry for each of the model's layers, and the block's behind them.
fn extended(array: &Array, longer: &Array, layers: usize) -> Array {
    macro_rules! extend {
        ($($kind:ident)*) => {
            match (array, longer) {
                $((Array::$kind(own), Array::$kind(all)) if own.len() == layers && all.len() > layers => {
                    Array::$kind(own.iter().chain(&all[layers..]).cloned().collect())
                })*
                _ => array.clone(),
            }
        };
    }
    extend!(U8 I8 U16 I16 U32 I32 U64 I64 F32 F64 Bool)
}
