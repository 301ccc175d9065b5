//! The weights of a decision head: a joint schema head, which reads a whole prompt's hidden states.

mod dims;
mod error;
mod one_file;
mod release;
mod tensors;

use std::path::{Path, PathBuf};

use bloomery_gguf::Gguf;
pub(crate) use dims::Dims;
pub use error::HeadError;

use tensors::Tensors;

use super::maths::{LayerNorm, Linear, QUERIES};
use super::pieces::{PIECE, Pieces};
use super::question::Criteria;
use crate::error::{LoadError, Term};
use crate::units::Bytes;

/// Where a head is, and its sizes. No weight has been read.
#[derive(Debug, Clone)]
pub(crate) struct HeadPlan {
    pub(crate) dims: Dims,
    /// Its file; without one it is in the model's.
    file: Option<PathBuf>,
}

/// Files of a head that is not in the model's.
#[derive(Debug, Clone)]
pub(crate) struct HeadFiles {
    pub(crate) weights: PathBuf,
    /// Where it is not beside the weights.
    pub(crate) config: Option<PathBuf>,
}

impl HeadPlan {
    /// Finds the head of a model, if it has one.
    pub(crate) fn find(
        gguf: &Gguf,
        hidden: usize,
        files: Option<&HeadFiles>,
    ) -> Result<Option<Self>, LoadError> {
        let architecture = gguf.metadata().architecture()?;
        let kind = gguf.metadata().scoped(architecture).opt_str("decision.type")?;
        let refuse = |why| {
            let architecture = architecture.to_owned();
            Err(LoadError::Head(HeadError::Backbone { architecture, why }))
        };
        match (architecture, kind, files) {
            ("clef", Some("clef"), None) => {
                let dims = one_file::read_dims(gguf, hidden)?;
                Ok(Some(Self { dims, file: None }))
            }
            ("clef", Some("clef"), Some(_)) => refuse("the model has one of its own"),
            ("qwen35", None, Some(files)) => {
                let config = files.config.clone().unwrap_or_else(|| release::config_beside(&files.weights));
                let dims = release::read_config(&config)?;
                if dims.hidden != hidden {
                    let why = format!("{}: the model's is {}", dims.hidden, hidden);
                    return Err(HeadError::Config { key: "hidden_size".to_owned(), why }.into());
                }
                Ok(Some(Self { dims, file: Some(files.weights.clone()) }))
            }
            (_, Some(kind), _) => Err(LoadError::UnsupportedConfig {
                key: format!("{architecture}.decision.type"),
                value: kind.to_owned(),
                supported: "clef, in architecture clef",
            }),
            ("clef", None, _) => {
                Err(bloomery_gguf::GgufError::MissingKey { key: "clef.decision.type".to_owned() }.into())
            }
            (_, None, Some(_)) => refuse("heads are made for qwen35"),
            (_, None, None) => Ok(None),
        }
    }

    /// What it takes of host memory: its weights, and for each of `sessions` what is kept of a prompt.
    pub(crate) fn term(&self, longest: usize, sessions: usize) -> Term {
        let parameters = self.dims.parameters();
        /// Mean and variance of a row in f64.
        const MOMENTS: usize = 4;
        // Rows, the same transposed, and scores.
        let kept = longest as u64 * (2 * self.dims.width + MOMENTS + QUERIES) as u64 * sessions as u64;
        let detail = format!("{parameters} values in f32, {sessions} prompts of up to {longest} tokens");
        Term { what: "decision head", bytes: Bytes(4 * (parameters + kept)), detail }
    }

    /// Reads the weights.
    pub(crate) fn load(&self, gguf: &Gguf) -> Result<Head, LoadError> {
        match &self.file {
            Some(path) => Head::from_files(path, self.dims),
            None => Head::from_model(gguf, self.dims),
        }
    }
}

/// The weights, in f32.
#[derive(Debug)]
pub(crate) struct Head {
    pub(super) dims: Dims,
    pub(super) hidden_norm: LayerNorm,
    /// For every piece of a memory's rows.
    pub(super) memory: Vec<Pieces>,
    pub(super) question: Linear,
    pub(super) option_question: Linear,
    pub(super) global: Linear,
    pub(super) option_context: Linear,
    pub(super) option_lexical: Linear,
    /// A row for each kind of question.
    pub(super) kinds: Vec<f32>,
    pub(super) routing: Vec<Routing>,
    pub(super) option_summary_norm: LayerNorm,
    pub(super) decoder: Vec<Decoder>,
    pub(super) field_norm: LayerNorm,
    pub(super) option_norm: LayerNorm,
    pub(super) scorer: Linear,
    pub(super) scorer_out: Linear,
    /// Of the prior, of the cosine, and of what the decoder adds.
    pub(super) scales: [f32; 3],
    temperatures: Vec<(String, f32)>,
}

/// A layer in which options look at the prompt.
#[derive(Debug)]
pub(super) struct Routing {
    pub(super) query_norm: LayerNorm,
    pub(super) memory_norm: LayerNorm,
    pub(super) attention: Attention,
    pub(super) feed_forward: FeedForward,
}

/// A layer in which questions look at each other and at the prompt.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) self_norm: LayerNorm,
    pub(super) self_attention: Attention,
    pub(super) cross_norm: LayerNorm,
    pub(super) cross_attention: Attention,
    pub(super) feed_forward: FeedForward,
}

#[derive(Debug)]
pub(super) struct FeedForward {
    pub(super) norm: LayerNorm,
    pub(super) up: Linear,
    pub(super) down: Linear,
}

/// Multi-head attention. Keys have no bias: it adds the same to every score of a query, which a softmax does not see.
#[derive(Debug)]
pub(super) struct Attention {
    pub(super) heads: usize,
    pub(super) queries: Linear,
    /// Of every head the transposed rows: `[heads][width][head]`.
    pub(super) keys: Vec<f32>,
    pub(super) values: Linear,
    pub(super) out: Linear,
}

impl Head {
    /// From the release's files.
    pub(super) fn from_files(weights: &Path, dims: Dims) -> Result<Self, LoadError> {
        Self::new(dims, one_file::EPS, release::read_weights(weights, &dims)?)
    }

    /// From the model's own file.
    pub(super) fn from_model(gguf: &Gguf, dims: Dims) -> Result<Self, LoadError> {
        let tensors = one_file::read_weights(gguf, &dims)?;
        let mut head = Self::new(dims, one_file::epsilon(gguf)?, tensors)?;
        let keys = gguf.metadata().scoped("clef");
        for kind in ["noul", "choice", "score"] {
            for bucket in ["", ".2", ".3_5", ".6_10", ".11"] {
                let name = format!("{kind}{bucket}");
                let key = format!("decision.temperature.{name}");
                if let Some(temperature) = keys.opt_f32(&key)? {
                    if !(temperature > 0.0 && temperature.is_finite()) {
                        let (key, why) =
                            (format!("clef.{key}"), format!("{temperature}: it is not positive"));
                        return Err(HeadError::Config { key, why }.into());
                    }
                    head.temperatures.push((name, temperature));
                }
            }
        }
        Ok(head)
    }

    fn new(dims: Dims, eps: f32, mut tensors: Tensors) -> Result<Self, LoadError> {
        let mut parts = Parts { tensors: &mut tensors, eps, dims };
        let head = Self {
            hidden_norm: parts.norm("decision.hidden_norm")?,
            memory: {
                let weight = parts.tensors.take("decision.proj_memory.weight")?;
                weight.chunks(PIECE * dims.hidden).map(|rows| Pieces::new(rows, dims.hidden)).collect()
            },
            question: parts.matrix("decision.proj_question", dims.hidden)?,
            option_question: parts.matrix("decision.proj_option_question", dims.hidden)?,
            global: parts.matrix("decision.proj_global", dims.hidden)?,
            option_context: parts.matrix("decision.proj_option_context", dims.hidden)?,
            option_lexical: parts.matrix("decision.proj_option_lexical", dims.hidden)?,
            kinds: parts.tensors.take("token_types.weight")?,
            routing: (0..dims.routing).map(|layer| parts.routing(layer)).collect::<Result<_, _>>()?,
            option_summary_norm: parts.norm("decision.option_summary_norm")?,
            decoder: (dims.routing..dims.routing + dims.decoder)
                .map(|layer| parts.decoder(layer))
                .collect::<Result<_, _>>()?,
            field_norm: parts.norm("decision.field_norm")?,
            option_norm: parts.norm("decision.option_norm")?,
            scorer: parts.linear("decision.scorer", 4 * dims.width)?,
            scorer_out: parts.linear("decision.scorer_out", dims.width)?,
            scales: {
                let scales = parts.tensors.take("decision.scales")?;
                [scales[0], scales[1], scales[2]]
            },
            temperatures: Vec::new(),
            dims,
        };
        Ok(head)
    }

    /// What the logits of a question are divided by: of its kind and number of options, else of its kind.
    pub(super) fn temperature(&self, criteria: &Criteria) -> f32 {
        let kind = criteria.name();
        let bucket = match criteria.options() {
            ..=2 => "2",
            3..=5 => "3_5",
            6..=10 => "6_10",
            _ => "11",
        };
        let find = |name: &str| self.temperatures.iter().find(|(known, _)| known == name).map(|(_, t)| *t);
        find(&format!("{kind}.{bucket}")).or_else(|| find(kind)).unwrap_or(1.0)
    }
}

/// Takes tensors apart into layers.
struct Parts<'t> {
    tensors: &'t mut Tensors,
    eps: f32,
    dims: Dims,
}

impl Parts<'_> {
    fn norm(&mut self, name: &str) -> Result<LayerNorm, HeadError> {
        let gain = self.tensors.take(&format!("{name}.weight"))?;
        Ok(LayerNorm { gain, bias: self.tensors.take(&format!("{name}.bias"))?, eps: self.eps })
    }

    fn matrix(&mut self, name: &str, cols: usize) -> Result<Linear, HeadError> {
        Ok(Linear { weight: self.tensors.take(&format!("{name}.weight"))?, cols, bias: None })
    }

    fn linear(&mut self, name: &str, cols: usize) -> Result<Linear, HeadError> {
        let bias = Some(self.tensors.take(&format!("{name}.bias"))?);
        Ok(Linear { bias, ..self.matrix(name, cols)? })
    }

    fn attention(&mut self, name: &str) -> Result<Attention, HeadError> {
        let (width, head) = (self.dims.width, self.dims.head());
        let queries = self.linear(&format!("{name}_q"), width)?;
        let rows = self.linear(&format!("{name}_k"), width)?.weight;
        let mut keys = vec![0.0; rows.len()];
        for (rows, keys) in rows.chunks_exact(head * width).zip(keys.chunks_exact_mut(head * width)) {
            for (row, values) in rows.chunks_exact(width).enumerate() {
                for (col, &value) in values.iter().enumerate() {
                    keys[col * head + row] = value;
                }
            }
        }
        let values = self.linear(&format!("{name}_v"), width)?;
        let heads = self.dims.heads;
        Ok(Attention { heads, queries, keys, values, out: self.linear(&format!("{name}_o"), width)? })
    }

    fn feed_forward(&mut self, block: &str) -> Result<FeedForward, HeadError> {
        Ok(FeedForward {
            norm: self.norm(&format!("{block}.ffn_norm"))?,
            up: self.linear(&format!("{block}.ffn_up"), self.dims.width)?,
            down: self.linear(&format!("{block}.ffn_down"), self.dims.feed_forward)?,
        })
    }

    fn routing(&mut self, layer: usize) -> Result<Routing, HeadError> {
        let block = format!("dec.blk.{layer}");
        Ok(Routing {
            query_norm: self.norm(&format!("{block}.cross_attn_norm"))?,
            memory_norm: self.norm(&format!("{block}.cross_attn_norm_kv"))?,
            attention: self.attention(&format!("{block}.cross_attn"))?,
            feed_forward: self.feed_forward(&block)?,
        })
    }

    fn decoder(&mut self, layer: usize) -> Result<Decoder, HeadError> {
        let block = format!("dec.blk.{layer}");
        Ok(Decoder {
            self_norm: self.norm(&format!("{block}.attn_norm"))?,
            self_attention: self.attention(&format!("{block}.attn"))?,
            cross_norm: self.norm(&format!("{block}.cross_attn_norm"))?,
            cross_attention: self.attention(&format!("{block}.cross_attn"))?,
            feed_forward: self.feed_forward(&block)?,
        })
    }
}
