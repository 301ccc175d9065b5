//! Why a head cannot be used.

use std::path::PathBuf;

use super::super::json::JsonError;

/// A decision head that does not fit, or no head at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// A file cannot be read.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The configuration is no JSON.
    #[error("{path}: {error}", path = path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where, and why.
        error: JsonError,
    },
    /// The file with the weights is broken.
    #[error("{path}: {why}", path = path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A number or a word of the configuration is missing, unknown, or impossible.
    #[error("decision head: {key}: {why}")]
    Config {
        /// Its key.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// The tensors are not those that the configuration implies.
    #[error("decision head: {}", problems(missing, unknown, misshapen))]
    Tensors {
        /// Names that should be there.
        missing: Vec<String>,
        /// Names that should not.
        unknown: Vec<String>,
        /// Names with the shape that is implied and the one that is there.
        misshapen: Vec<String>,
    },
    /// A tensor's values are not to be had.
    #[error("decision head: tensor `{name}`: {why}")]
    Values {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// A head was named for a model that has none, or one of its own.
    #[error("a decision head for {architecture}: {why}")]
    Backbone {
        /// The model's architecture.
        architecture: String,
        /// Why not.
        why: &'static str,
    },
}

fn problems(missing: &[String], unknown: &[String], misshapen: &[String]) -> String {
    const SHOWN: usize = 8;
    let list = |what: &str, names: &[String]| {
        let more = if names.len() > SHOWN { ", …" } else { "" };
        let shown = names[..names.len().min(SHOWN)].join(", ");
        (!names.is_empty()).then(|| format!("{} tensors {what}: {shown}{more}", names.len()))
    };
    let parts =
        [list("are missing", missing), list("are unknown", unknown), list("have other shapes", misshapen)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
