//! Feed-forward parts: one network, or experts and their router.

use super::Bias;

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
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Act {
    /// `z / (1 + exp(-z))`.
    Silu,
    /// `z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3)))` (Hendrycks and Gimpel, 2016).
    GeluTanh,
    /// SiLU of a gate that is at most the limit, times a value that is within it on both sides.
    ClampedSilu {
        /// The limit.
        limit: f32,
    },
}

impl Act {
    /// SiLU with this limit, where it is one: files write 0 for none.
    #[must_use]
    pub fn clamped(limit: f32) -> Self {
        if limit > 1e-6 { Self::ClampedSilu { limit } } else { Self::Silu }
    }
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
    pub shared: Option<Shared>,
}

/// A network beside routed experts.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Shared {
    /// The network.
    pub network: Dense,
    /// Whether its result is multiplied by the sigmoid of one product with the token's row.
    pub gate: bool,
}

/// How experts are chosen and weighted: the `used` of the largest scores; equal ones go to the lower index.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Router {
    /// Logits into scores.
    pub scores: Scores,
    /// Whether the kept weights are divided by their sum.
    pub renormalize: bool,
    /// Multiplies the weights.
    pub scale: f32,
    /// Added to scores for the choice, not to the weights (`exp_probs_b.bias`).
    pub bias: Bias,
    /// Limits the choice to some groups of neighbouring experts.
    pub groups: Option<Groups>,
    /// Whether a table has the experts of every token (`ffn_gate_tid2eid`); scores only weigh them.
    pub by_token: bool,
}

/// Logits of a router into scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scores {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each.
    Sigmoid,
    /// `sqrt(ln(1 + e^logit))` of each.
    SqrtSoftplus,
}

/// Groups of neighbouring experts: experts are chosen from those whose two largest scores have the largest sums (DeepSeek-V3, 2024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Groups {
    /// All of them; divides the experts.
    pub count: usize,
    /// Those that experts are chosen from.
    pub used: usize,
}
