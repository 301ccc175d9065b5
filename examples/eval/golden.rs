//! A folder of model files with reference logits, continuations and routes.

use std::fs;
use std::path::{Path, PathBuf};

use bloomery_examples::{Failure, Status};
use serde_json::Value;

use crate::routes::Routed;

/// What is known about one model file.
#[derive(Debug, Clone)]
pub(crate) struct Golden {
    pub(crate) model: PathBuf,
    pub(crate) ids: Vec<u32>,
    pub(crate) vocab: usize,
    /// One row per id.
    pub(crate) logits: Vec<f32>,
    /// Ids that follow, by greedy choice.
    pub(crate) greedy: Vec<u32>,
    /// Lead of the best id over the second at every greedy step.
    pub(crate) margins: Vec<f64>,
    /// Of every routed layer, experts ascending.
    pub(crate) routes: Vec<Routed>,
}

/// Everything known about the model files of a folder: `golden.json`, `tokens.json` and the logits they name. Files
/// without exact reference logits are left out.
pub(crate) fn read_folder(folder: &Path) -> Result<Vec<Golden>, Failure> {
    let golden = read_json(&folder.join("golden.json"))?;
    let tokens = read_json(&folder.join("tokens.json"))?;
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut models: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    models.sort();
    let mut found = Vec::new();
    for model in models {
        let Some(variant) = variant(&model) else { continue };
        // `small` files hold the same values in other formats; the references of `k` files depend on the format.
        let (size, key) = match variant.split_once('-') {
            Some(("k", format)) => ("k", format!("k-{format}-exact")),
            _ => ("small", "small".to_owned()),
        };
        if let Some(entry) = golden["goldens"].get(&key) {
            found.push(entry_of(folder, model, entry, &tokens[size]).ok_or_else(|| {
                Failure::new(
                    Status::Data,
                    format!("{}: {key} is not as expected", folder.join("golden.json").display()),
                )
            })??);
        }
    }
    Ok(found)
}

/// The middle of `model-VARIANT.gguf`.
fn variant(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    Some(name.strip_prefix("model-")?.strip_suffix(".gguf")?.to_owned())
}

/// `None` where a field is missing or of another type.
fn entry_of(folder: &Path, model: PathBuf, entry: &Value, tokens: &Value) -> Option<Result<Golden, Failure>> {
    let ids = ids(&tokens["ids"])?;
    let vocab = tokens["n_vocab"].as_u64()? as usize;
    let path = folder.join(entry["logits"].as_str()?);
    let logits = match fs::read(&path) {
        Ok(bytes) => bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect::<Vec<f32>>(),
        Err(error) => return Some(Err(unreadable(&path, &error))),
    };
    if logits.len() != ids.len() * vocab {
        let message = format!("{}: {} values for {} x {vocab}", path.display(), logits.len(), ids.len());
        return Some(Err(Failure::new(Status::Data, message)));
    }
    let mut routes = Vec::new();
    for (layer, rows) in entry["routes"].as_object().into_iter().flatten() {
        let rows = rows.as_array()?.iter().map(sorted_ids).collect::<Option<Vec<_>>>()?;
        routes.push(Routed { layer: layer.parse().ok()?, rows });
    }
    routes.sort();
    let margins =
        entry["greedy_margin"].as_array().into_iter().flatten().map(Value::as_f64).collect::<Option<_>>()?;
    let greedy = self::ids(&entry["greedy"])?;
    Some(Ok(Golden { model, ids, vocab, logits, greedy, margins, routes }))
}

fn ids(value: &Value) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

fn sorted_ids(value: &Value) -> Option<Vec<u32>> {
    let mut ids = ids(value)?;
    ids.sort_unstable();
    Some(ids)
}

fn read_json(path: &Path) -> Result<Value, Failure> {
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    serde_json::from_slice(&bytes).map_err(|error| Failure::new(Status::Data, error).about(path.display()))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Status::NoInput, error).about(path.display())
}
