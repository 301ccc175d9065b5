//! What the decoder families have in common: the keys every one of them reads.

use std::fmt::Display;

use bloomery_gguf::{Metadata, Scoped};

use crate::def::{Act, Bias, Dense, Ffn, Gqa, Layer, Mixer, ModelDef, Norm, Pairs, Rope, Scaling};
use crate::error::LoadError;

/// The metadata of a model under its architecture's prefix.
pub(super) struct Keys<'a> {
    meta: &'a Metadata,
    scoped: Scoped<'a>,
    name: &'a str,
}

impl<'a> Keys<'a> {
    pub(super) fn new(meta: &'a Metadata, name: &'a str) -> Self {
        Self { meta, scoped: meta.scoped(name), name }
    }

    /// The same under another prefix.
    pub(super) fn under(&self, name: &'a str) -> Self {
        Self::new(self.meta, name)
    }

    /// The values under the architecture's prefix.
    pub(super) fn values(&self) -> &Scoped<'a> {
        &self.scoped
    }

    /// A required count.
    pub(super) fn count(&self, key: &str) -> Result<usize, LoadError> {
        Ok(self.scoped.u32(key)? as usize)
    }

    /// A count that may be absent.
    pub(super) fn opt_count(&self, key: &str) -> Result<Option<usize>, LoadError> {
        Ok(self.scoped.opt_u32(key)?.map(|n| n as usize))
    }

    /// An `f32` with a default.
    pub(super) fn float(&self, key: &str, default: f32) -> Result<f32, LoadError> {
        Ok(self.scoped.opt_f32(key)?.unwrap_or(default))
    }

    /// The refusal of a value this engine has no code for.
    pub(super) fn unsupported(&self, key: &str, value: impl Display, supported: &'static str) -> LoadError {
        LoadError::UnsupportedConfig {
            key: format!("{}.{key}", self.name),
            value: value.to_string(),
            supported,
        }
    }

    /// Refuses `key` when it is present and differs from the only value there is code for.
    pub(super) fn only<T: PartialEq + Display>(
        &self,
        key: &str,
        found: Option<T>,
        supported: T,
        name: &'static str,
    ) -> Result<(), LoadError> {
        match found {
            Some(value) if value != supported => Err(self.unsupported(key, value, name)),
            _ => Ok(()),
        }
    }

    /// The model's RMS norm.
    pub(super) fn norm(&self) -> Result<Norm, LoadError> {
        Ok(Norm { eps: self.scoped.f32("attention.layer_norm_rms_epsilon")? })
    }

    /// Grouped-query attention without biases and head norms.
    pub(super) fn gqa(&self, pairs: Pairs) -> Result<Gqa, LoadError> {
        let heads = self.positive("attention.head_count")?;
        let kv_heads = self.opt_count("attention.head_count_kv")?.unwrap_or(heads);
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(self.unsupported(
                "attention.head_count_kv",
                kv_heads,
                "a divisor of attention.head_count",
            ));
        }
        let head_dim = match self.opt_count("attention.key_length")? {
            Some(dim) => dim,
            None => self.count("embedding_length")? / heads,
        };
        if head_dim == 0 || head_dim % 2 != 0 {
            return Err(self.unsupported("attention.key_length", head_dim, "an even number"));
        }
        self.only(
            "attention.value_length",
            self.opt_count("attention.value_length")?,
            head_dim,
            "equal to key_length",
        )?;
        let dims = self.opt_count("rope.dimension_count")?.unwrap_or(head_dim);
        if dims == 0 || dims % 2 != 0 || dims > head_dim {
            return Err(self.unsupported("rope.dimension_count", dims, "an even number up to key_length"));
        }
        Ok(Gqa {
            heads,
            kv_heads,
            head_dim,
            rope: self.rope(pairs, dims)?,
            scale: 1.0 / (head_dim as f32).sqrt(),
            window: None,
            gate: false,
            qk_norm: None,
            qkv_bias: Bias::None,
            out_bias: Bias::None,
            index: None,
        })
    }

    /// The model's rotary embedding of `dims` dimensions.
    pub(super) fn rope(&self, pairs: Pairs, dims: usize) -> Result<Rope, LoadError> {
        let (base, scaling) = (self.float("rope.freq_base", 10_000.0)?, self.scaling()?);
        Ok(Rope { pairs, dims, base, scaling, factors: false })
    }

    fn scaling(&self) -> Result<Scaling, LoadError> {
        let factor = self.float("rope.scaling.factor", 0.0)?;
        let kind = self.scoped.opt_str("rope.scaling.type")?.unwrap_or("linear");
        match kind {
            "none" => Ok(Scaling::None),
            "linear" if factor == 0.0 || factor == 1.0 => Ok(Scaling::None),
            "linear" => Ok(Scaling::Linear { factor }),
            "yarn" => Ok(Scaling::Yarn {
                factor: if factor == 0.0 { 1.0 } else { factor },
                original_context: match self.opt_count("rope.scaling.original_context_length")? {
                    Some(original) => original,
                    None => self.count("context_length")?,
                },
                beta_fast: self.float("rope.scaling.yarn_beta_fast", 32.0)?,
                beta_slow: self.float("rope.scaling.yarn_beta_slow", 1.0)?,
                attention_factor: self.float("rope.scaling.attn_factor", 1.0)?,
            }),
            other => Err(self.unsupported("rope.scaling.type", other, "none, linear or yarn")),
        }
    }

    /// One gated network of `feed_forward_length`.
    pub(super) fn dense(&self) -> Result<Ffn, LoadError> {
        Ok(Ffn::Dense(Dense { width: self.positive("feed_forward_length")?, act: Act::Silu }))
    }

    /// A decoder of equal layers.
    pub(super) fn decoder(&self, gqa: &Gqa, ffn: &Ffn) -> Result<ModelDef, LoadError> {
        let layer = self.layer(Mixer::Gqa(gqa.clone()), ffn.clone())?;
        self.model(vec![layer; self.positive("block_count")?])
    }

    /// A layer with a norm before each part.
    pub(super) fn layer(&self, mixer: Mixer, ffn: Ffn) -> Result<Layer, LoadError> {
        Ok(Layer { norm: self.norm()?, ffn_norm: "ffn_norm", post_norms: false, mixer, ffn })
    }

    /// A decoder of these layers.
    pub(super) fn model(&self, layers: Vec<Layer>) -> Result<ModelDef, LoadError> {
        let vocab = match self.opt_count("vocab_size")? {
            Some(vocab) => vocab,
            None => self.meta.strings("tokenizer.ggml.tokens")?.len(),
        };
        Ok(ModelDef {
            architecture: self.name.to_owned(),
            hidden: self.positive("embedding_length")?,
            vocab,
            context: self.positive("context_length")?,
            layers,
            norm: self.norm()?,
            head_bias: Bias::None,
            embedding_scale: 1.0,
            streams: None,
            ngrams: Vec::new(),
            draft: None,
            reserved: Vec::new(),
        })
    }

    /// A required count that may not be zero.
    pub(super) fn positive(&self, key: &str) -> Result<usize, LoadError> {
        match self.count(key)? {
            0 => Err(self.unsupported(key, 0, "a positive number")),
            n => Ok(n),
        }
    }
}
