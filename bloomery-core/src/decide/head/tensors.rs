//! Values of a head's tensors by their names.

use std::collections::{BTreeMap, HashMap};

use bloomery_gguf::{Format, dequantize};

use super::error::HeadError;

/// All tensors of a head, in f32.
#[derive(Debug, Default)]
pub(super) struct Tensors(HashMap<String, Vec<f32>>);

impl Tensors {
    /// Appends the values of `data` to `values`.
    pub(super) fn append(
        &self,
        name: &str,
        format: Format,
        data: &[u8],
        values: &mut Vec<f32>,
    ) -> Result<(), HeadError> {
        let start = values.len();
        values.resize(start + data.len() / format.block_bytes() * format.block_len(), 0.0);
        dequantize(format, data, &mut values[start..])
            .map_err(|error| HeadError::Values { name: name.to_owned(), why: error.to_string() })
    }

    pub(super) fn insert(&mut self, name: String, values: Vec<f32>) {
        self.0.insert(name, values);
    }

    /// Hands out a tensor.
    pub(super) fn take(&mut self, name: &str) -> Result<Vec<f32>, HeadError> {
        let none =
            || HeadError::Tensors { missing: vec![name.to_owned()], unknown: vec![], misshapen: vec![] };
        self.0.remove(name).ok_or_else(none)
    }
}

/// Refuses other names or shapes than those that are wanted.
pub(super) fn compare(
    wanted: BTreeMap<String, Vec<usize>>,
    found: BTreeMap<String, Vec<usize>>,
) -> Result<(), HeadError> {
    let absent = |of: &BTreeMap<String, Vec<usize>>, names: &BTreeMap<String, Vec<usize>>| {
        names.keys().filter(|name| !of.contains_key(*name)).cloned().collect::<Vec<_>>()
    };
    let (missing, unknown) = (absent(&found, &wanted), absent(&wanted, &found));
    let misshapen: Vec<String> = wanted
        .iter()
        .filter_map(|(name, shape)| Some((name, shape, found.get(name)?)))
        .filter(|(_, shape, found)| shape != found)
        .map(|(name, shape, found)| format!("{name} ({found:?}, implied: {shape:?})"))
        .collect();
    if missing.is_empty() && unknown.is_empty() && misshapen.is_empty() {
        return Ok(());
    }
    Err(HeadError::Tensors { missing, unknown, misshapen })
}
