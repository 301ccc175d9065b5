//! What a model is, as data: the vocabulary in which the files of `arch/` describe an architecture.
//!
//! Nothing here names a device, a batch or a cache page. `layers/` turns these definitions into a program of ops.

mod ffn;
mod guessing;
mod windowed;

pub use ffn::{Act, Dense, Ffn, Groups, Moe, Router, Scores, Shared};
pub use guessing::{Guessing, NextToken, Spark};
pub use windowed::{Candidates, Choice, Summaries, Windowed};

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
    /// Multiplies the embedding's rows; the head, also a tied one, is not scaled.
    pub embedding_scale: f32,
    /// How many rows of the width the residual has for each token, where that is more than one.
    pub streams: Option<Streams>,
    /// Hashed n-grams that layers add to the streams.
    pub ngrams: Vec<Ngrams>,
    /// What guesses tokens, where there is something.
    pub draft: Option<Guessing>,
    /// Beginnings of the names of tensors that are there for something else than this program.
    pub reserved: Vec<String>,
}

/// One layer: `x += mixer(norm(x)); x += ffn(norm(x))`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Layer {
    /// Norm before the mixer and before the feed-forward part.
    pub norm: Norm,
    /// Name of the gain of the norm before the feed-forward part, without its layer.
    pub ffn_norm: &'static str,
    /// Whether what a part returns goes through a norm of its own before it is added to `x`: tensors `post_attention_norm` and
    /// `post_ffw_norm`.
    pub post_norms: bool,
    /// The part that looks at other positions.
    pub mixer: Mixer,
    /// The part that does not.
    pub ffn: Ffn,
}

/// A residual of several rows for each token, of which every part of a layer reads a mixture.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Streams {
    /// Rows for each token.
    pub count: usize,
    /// How they are mixed.
    pub mixing: Mixing,
}

/// How a part of a layer reads streams and adds to them.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Mixing {
    /// Reads the mean of normed streams, each value through a sigmoid, and adds its result to every stream by a weight of its own
    /// (Qwen3.8). Takes the place of the norm before the part.
    Gated {
        /// Width between the two products that make the sigmoids.
        low_rank: usize,
    },
    /// Hyper-connections (Zhu et al., 2024) whose matrix between streams is made nearly doubly stochastic.
    Hyper {
        /// Rounds of that.
        rounds: usize,
        /// Added to weights and to the sums they are divided by.
        eps: f32,
        /// Which weights a part, and the head, reads with.
        reading: Reading,
    },
}

/// Which weights of hyper-connections streams are read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reading {
    /// A part with its own, the head with the mean.
    Own,
    /// A part with its own, the head with weights that have tensors of their own (DeepSeek-V4).
    OwnAndHead,
    /// A part with those of the part before, as the head does (DeepSeek-V4.1).
    Lagged,
}

/// Rows of a table by hashes of the newest tokens, two of them and more, which are added to the streams before one layer
/// (per-layer embedding of Qwen3.8; engrams of DeepSeek-V4.1).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ngrams {
    /// The layer.
    pub layer: usize,
    /// Width of a row of the table.
    pub width: usize,
    /// Of the tokens of an n-gram, the newest first: what each is multiplied with. As many as the longest n-gram has tokens.
    pub multipliers: Vec<u64>,
    /// Of every head, those of the shortest n-grams first: its part of the table, as first row and rows.
    pub heads: Vec<(u64, u64)>,
    /// What is before the first token.
    pub boundary: u32,
    /// Whether n-grams do not reach across such a token.
    pub cuts: bool,
    /// Of every token the number that stands for it, if that is another.
    pub folded: Option<Vec<u32>>,
    /// What becomes of the table's rows.
    pub kind: NgramKind,
}

/// What becomes of rows of a table of n-grams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NgramKind {
    /// One table for the model; a convolution over the values follows.
    PerLayer {
        /// Positions that it sees, as many apart as the longest n-gram has tokens.
        taps: usize,
    },
    /// A table for each layer; nothing follows.
    Engram,
}

/// An index over blocks of positions, of which a row attends to those that fit best and to what comes after the last whole block
/// (sparse attention of DeepSeek-V3.2, 2025, over pools).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Index {
    /// Query heads.
    pub heads: usize,
    /// Values of a head, and of a block's key.
    pub width: usize,
    /// Positions of a block.
    pub block: usize,
    /// Blocks that a row attends to.
    pub keep: usize,
    /// From keys of positions to that of a block.
    pub pooling: Pooling,
}

/// From keys of positions to the key of their block.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Pooling {
    /// Their mean, normed and turned as the first position's; queries are normed and turned like those of attention.
    Mean {
        /// Of queries and of means.
        norm: Norm,
    },
    /// A sum with weights from a softmax of gates, of keys that a layer norm went over; queries are products of the latent that
    /// attention's are, and a product with the row weighs their heads.
    Softmax {
        /// Added to the variance.
        eps: f32,
    },
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
    /// Attention over latents.
    Mla(Mla),
    /// Gated delta net.
    Delta(DeltaNet),
    /// Attention to a window and to rows that stand for groups of positions.
    Windowed(Windowed),
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
    /// Multiplies scores before the softmax.
    pub scale: f32,
    /// A position sees its last `window` positions, its own included; all of them where there is no window.
    pub window: Option<usize>,
    /// Whether `attn_q` has for every head a gate after its query, whose sigmoid multiplies what the head returns.
    pub gate: bool,
    /// RMS norm of every query and key head before the rotary embedding.
    pub qk_norm: Option<Norm>,
    /// Biases of the q, k and v projections.
    pub qkv_bias: Bias,
    /// Bias of the output projection.
    pub out_bias: Bias,
    /// What limits the positions a row sees.
    pub index: Option<Index>,
}

/// Multi-head latent attention (DeepSeek-V2, 2024): keys and values of all heads are products of one latent and share one
/// rotary key.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Mla {
    /// Query heads.
    pub heads: usize,
    /// Values of a head's query and key that do not turn; they come first.
    pub nope: usize,
    /// Rotary embedding of the values after those.
    pub rope: Rope,
    /// Values that a head returns.
    pub value: usize,
    /// Values of the latent.
    pub latent: usize,
    /// Width of the queries' own latent, where the file has tensors for one.
    pub q_latent: Option<usize>,
    /// Norm of both latents.
    pub norm: Norm,
    /// Multiplies scores before the softmax.
    pub scale: f32,
    /// What limits the positions a row sees.
    pub index: Option<Index>,
}

/// Gated delta net (Yang et al., 2024): every value head has a matrix that forgets by `exp(g)` and is corrected towards the value
/// of the newest key. Value head `j` reads key head `j mod key_heads`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct DeltaNet {
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Heads of values; a multiple of `key_heads`.
    pub value_heads: usize,
    /// Values of a head, also of a key's.
    pub head_dim: usize,
    /// Positions that the causal convolution before it sees, the newest included.
    pub taps: usize,
    /// Norm of every head's result.
    pub norm: Norm,
    /// What of a head's matrix decays by itself.
    pub decay: Decay,
    /// What multiplies the normed results.
    pub gate: OutGate,
}

/// What of a delta net's matrices decays by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Decay {
    /// All of a head: `g = a softplus(alpha + dt)`.
    Head,
    /// Every channel of a head's keys (Kimi delta attention, 2025): `g = bound sigmoid(-a (alpha + dt))`.
    Channel {
        /// Below zero.
        bound: f32,
    },
}

/// What a gate goes through before it multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutGate {
    /// `z / (1 + exp(-z))`.
    Silu,
    /// `1 / (1 + exp(-z))`.
    Sigmoid,
}

impl DeltaNet {
    /// Width of queries, keys and values together.
    #[must_use]
    pub fn channels(&self) -> usize {
        (2 * self.key_heads + self.value_heads) * self.head_dim
    }

    /// Width of the values of all heads.
    #[must_use]
    pub fn inner(&self) -> usize {
        self.value_heads * self.head_dim
    }

    /// Values that a sequence keeps of a layer: `[taps - 1][channels]` rows before the convolution, oldest first, then
    /// `[value_heads][head_dim][head_dim]` with the key's dimension innermost.
    #[must_use]
    pub fn state_len(&self) -> usize {
        (self.taps - 1) * self.channels() + self.inner() * self.head_dim
    }
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
