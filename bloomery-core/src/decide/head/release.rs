//! A head in the two files of its release: `joint_head.safetensors` and `joint_head_config.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bloomery_gguf::Format;
use safetensors::{Dtype, SafeTensors};

use super::super::json::Json;
use super::dims::Dims;
use super::error::HeadError;
use super::tensors::{Tensors, compare};

/// The configuration's file, where the weights' file does not say it: `X_config.json` beside `X.safetensors`.
pub(super) fn config_beside(weights: &Path) -> PathBuf {
    let stem = weights.file_stem().unwrap_or_default().to_string_lossy();
    weights.with_file_name(format!("{stem}_config.json"))
}

/// Reads the configuration.
pub(super) fn read_config(path: &Path) -> Result<Dims, HeadError> {
    let io = |error| HeadError::Io { path: path.to_owned(), error };
    let text = fs::read_to_string(path).map_err(io)?;
    let json = Json::parse(text.trim()).map_err(|error| HeadError::Json { path: path.to_owned(), error })?;
    Dims::read(&json)
}

/// Reads the weights.
pub(super) fn read_weights(path: &Path, dims: &Dims) -> Result<Tensors, HeadError> {
    let bytes = fs::read(path).map_err(|error| HeadError::Io { path: path.to_owned(), error })?;
    let broken = |why: &dyn ToString| HeadError::Safetensors { path: path.to_owned(), why: why.to_string() };
    let file = SafeTensors::deserialize(&bytes).map_err(|error| broken(&error))?;
    let mut wanted: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (name, shape) in dims.tensors() {
        for Place { name, part } in places(&name, dims.routing) {
            let whole = match part {
                Part::Whole => shape.clone(),
                Part::Third(_) => [&[3 * shape[0]], &shape[1..]].concat(),
                Part::Scalar => Vec::new(),
            };
            wanted.insert(name, whole);
        }
    }
    let found = file.tensors().into_iter().map(|(name, view)| (name, view.shape().to_vec()));
    compare(wanted, found.collect())?;
    let mut tensors = Tensors::default();
    for (name, shape) in dims.tensors() {
        let size: usize = shape.iter().product();
        let mut values = Vec::with_capacity(size);
        for Place { name, part } in places(&name, dims.routing) {
            let view = file.tensor(&name).map_err(|error| broken(&error))?;
            let format = match view.dtype() {
                Dtype::F32 => Format::F32,
                Dtype::F16 => Format::F16,
                Dtype::BF16 => Format::BF16,
                other => {
                    let why = format!("{other:?} where F32, F16 or BF16 is needed");
                    return Err(HeadError::Values { name, why });
                }
            };
            let data = match part {
                Part::Whole | Part::Scalar => view.data(),
                Part::Third(third) => {
                    let bytes = size * format.block_bytes();
                    &view.data()[third * bytes..(third + 1) * bytes]
                }
            };
            tensors.append(&name, format, data, &mut values)?;
        }
        if name == "decision.scales" {
            // They are stored before these transforms here, after them in one file.
            let limit = |value: f32| f64::from(value).min(100f64.ln()).exp() as f32;
            values = vec![
                limit(values[0]),
                limit(values[1]),
                (1.0 / (1.0 + (-f64::from(values[2])).exp())) as f32,
            ];
        }
        tensors.insert(name, values);
    }
    Ok(tensors)
}

/// Where in the release's file a tensor is.
struct Place {
    name: String,
    part: Part,
}

enum Part {
    Whole,
    /// Queries, keys and values are one tensor.
    Third(usize),
    /// A tensor without dimensions.
    Scalar,
}

/// What a tensor of a one-file model consists of in the release's file.
fn places(name: &str, routing: usize) -> Vec<Place> {
    if name == "decision.scales" {
        let scalar = |name: &str| Place { name: name.to_owned(), part: Part::Scalar };
        return ["prior_logit_scale", "joint_logit_scale", "residual_gate"].map(scalar).into();
    }
    let (stem, kind) = name.rsplit_once('.').unwrap_or((name, ""));
    let (stem, part) = match stem.strip_prefix("dec.blk.").and_then(|rest| rest.split_once('.')) {
        Some((number, stem)) => in_block(number.parse().unwrap_or(0), stem, kind, routing),
        None => {
            let stem = match stem.strip_prefix("decision.").unwrap_or(stem) {
                "token_types" => "type_embedding".to_owned(),
                "scorer" => "residual_scorer.0".to_owned(),
                "scorer_out" => "residual_scorer.3".to_owned(),
                other => match other.strip_prefix("proj_") {
                    Some(projection) => format!("{projection}_projection"),
                    None => other.to_owned(),
                },
            };
            (format!("{stem}.{kind}"), Part::Whole)
        }
    };
    vec![Place { name: stem, part }]
}

fn in_block(number: usize, stem: &str, kind: &str, routing: usize) -> (String, Part) {
    let routes = number < routing;
    let layer = match routes {
        true => format!("evidence_layers.{number}"),
        false => format!("layers.{}", number - routing),
    };
    let attention = stem.rsplit_once('_').filter(|(_, part)| ["q", "k", "v", "o"].contains(part));
    if let Some((attention, part)) = attention {
        let module = match (attention, routes) {
            (_, true) => "attention",
            ("attn", false) => "self_attn",
            (_, false) => "multihead_attn",
        };
        return match ["q", "k", "v"].iter().position(|third| *third == part) {
            Some(third) => (format!("{layer}.{module}.in_proj_{kind}"), Part::Third(third)),
            None => (format!("{layer}.{module}.out_proj.{kind}"), Part::Whole),
        };
    }
    let module = match (stem, routes) {
        ("cross_attn_norm", true) => "query_norm",
        ("cross_attn_norm_kv", true) => "memory_norm",
        ("ffn_norm", true) => "feedforward_norm",
        ("ffn_up", true) => "feedforward.0",
        ("ffn_down", true) => "feedforward.3",
        ("attn_norm", false) => "norm1",
        ("cross_attn_norm", false) => "norm2",
        ("ffn_norm", false) => "norm3",
        ("ffn_up", false) => "linear1",
        ("ffn_down", false) => "linear2",
        (other, _) => other,
    };
    (format!("{layer}.{module}.{kind}"), Part::Whole)
}
