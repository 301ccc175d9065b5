//! What a model is, as data: the vocabulary in which the files of `arch/` describe an architecture.
//!
//! Nothing here names a device, a batch or a cache page. `layers/` turns these definitions into a program of ops.

/// A decoder: embedding, layers, final norm, head.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelDef {
    /// `general.architecture`.
    pub architecture: String,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Rows of the embedding and of the head.
    pub vocab: usize,
    /// Positions the model was trained for.
    pub context: usize,
    /// From first to last.
    pub layers: Vec<Layer>,
    /// Norm before the head.
    pub norm: Norm,
    /// Bias of the head.
    pub head_bias: Bias,
}

/// One layer: `x += mixer(norm(x)); x += ffn(norm(x))`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Layer {
    /// Norm before the mixer and before the feed-forward part.
    pub norm: Norm,
    /// The part that looks at other positions.
    pub mixer: Mixer,
    /// The part that does not.
    pub ffn: Ffn,
}

/// `gain * x / sqrt(mean(x^2) + eps)` (Zhang and Sennrich, 2019).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Norm {
    /// Added to the mean square.
    pub eps: f32,
}

/// How positions exchange information.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Mixer {
    /// Grouped-query attention.
    Gqa(Gqa),
}

/// Grouped-query attention (Ainslie et al., 2023): query head `h` reads key/value head `h / (heads / kv_heads)`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Gqa {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Values of one head.
    pub head_dim: usize,
    /// Rotary embedding of queries and keys.
    pub rope: Rope,
    /// RMS norm of every query and key head before the rotary embedding.
    pub qk_norm: Option<Norm>,
    /// Biases of the q, k and v projections.
    pub qkv_bias: Bias,
    /// Bias of the output projection.
    pub out_bias: Bias,
}

/// Whether a projection has a bias vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bias {
    /// Never.
    None,
    /// If the file has the tensor.
    Optional,
    /// Always; a file without it is refused.
    Required,
}

/// Rotary position embedding (Su et al., 2021).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Rope {
    /// Which dimensions turn together.
    pub pairs: Pairs,
    /// Leading dimensions of a head that turn.
    pub dims: usize,
    /// Pair `m` turns by `position * base^(-2m/dims)`.
    pub base: f32,
    /// Stretching of the context.
    pub scaling: Scaling,
    /// Whether a tensor `rope_freqs.weight`, which divides the angle of every pair, is honoured where present.
    pub factors: bool,
}

/// Which dimensions of a head form a rotating pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pairs {
    /// `(m, m + dims/2)`, as in GPT-NeoX.
    Halves,
    /// `(2m, 2m + 1)`, as in the paper.
    Adjacent,
}

/// Stretching of rotary positions beyond the trained context.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Scaling {
    /// Positions as they are.
    None,
    /// Positions divided by a factor (Chen et al., 2023).
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// YaRN (Peng et al., 2023).
    Yarn {
        /// Ratio of the stretched to the original context.
        factor: f32,
        /// Trained positions before stretching.
        original_context: usize,
        /// Rotations above which a pair is left alone.
        beta_fast: f32,
        /// Rotations below which a pair is interpolated.
        beta_slow: f32,
        /// Multiplies the attention temperature of the paper.
        attention_factor: f32,
    },
}

/// Position-wise part of a layer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Ffn {
    /// One gated network for every token.
    Dense(Dense),
    /// Routed experts.
    Moe(Moe),
}

/// `down(act(gate n) * (up n))` (Shazeer, 2020).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Dense {
    /// Width between up and down.
    pub width: usize,
    /// Activation of the gate.
    pub act: Act,
}

/// Activation of a gated network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Act {
    /// `z / (1 + exp(-z))`.
    Silu,
}

/// Routed experts: every token goes through `used` of `experts` gated networks.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Moe {
    /// Networks in a layer.
    pub experts: usize,
    /// Networks per token.
    pub used: usize,
    /// Width of one network.
    pub width: usize,
    /// How experts are chosen and weighted.
    pub router: Router,
    /// Activation of the gate.
    pub act: Act,
    /// A network every token goes through beside the routed ones.
    pub shared: Option<Dense>,
}

/// How experts are chosen and weighted.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Router {
    /// Softmax over all experts, the `used` largest kept; equal scores go to the lower index.
    SoftmaxTopK {
        /// Whether the kept weights are divided by their sum.
        renormalize: bool,
        /// Multiplies the weights.
        scale: f32,
    },
}

impl ModelDef {
    /// The distinct mixers and feed-forward parts in one line, for listings.
    #[must_use]
    pub fn summary(&self) -> String {
        let experts = self.layers.iter().find_map(|layer| match &layer.ffn {
            Ffn::Moe(moe) => Some(format!(", {} of {} experts", moe.used, moe.experts)),
            Ffn::Dense(_) => None,
        });
        format!(
            "{}: {} layers, {} wide{}",
            self.architecture,
            self.layers.len(),
            self.hidden,
            experts.unwrap_or_default()
        )
    }
}
