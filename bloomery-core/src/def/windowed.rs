//! Attention to a window and to rows that stand for groups of positions.

use super::{Norm, Rope};

/// Attention of all heads to one row a position, which is key and value: to those of the last positions, and to rows that stand for
/// groups of earlier ones (DeepSeek-V4, 2026). Every head has a sink, and what it returns is turned back.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Windowed {
    /// Query heads.
    pub heads: usize,
    /// Values of a head, and of a row.
    pub head_dim: usize,
    /// Width of the queries' latent.
    pub q_latent: usize,
    /// Of the latent and of rows.
    pub norm: Norm,
    /// Whether the heads of queries are normed, without a gain.
    pub head_norm: bool,
    /// Rotary embedding of the last values of heads and rows.
    pub rope: Rope,
    /// Multiplies scores.
    pub scale: f32,
    /// Positions that a row sees one by one, its own included.
    pub window: usize,
    /// Groups of neighbouring heads, each with a product of its own for the output.
    pub out_groups: usize,
    /// Values that such a product leaves.
    pub out_rank: usize,
    /// What stands for earlier positions, where something does.
    pub summaries: Option<Summaries>,
}

/// Rows that stand for groups of positions: sums with weights from a softmax of gates, normed.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Summaries {
    /// Positions of a group.
    pub positions: usize,
    /// Whether layers without the tensors that make rows, or choose among them, go on with those of the nearest layer before.
    pub shared: bool,
    /// Whether a group's row is also of the group before, with columns of their own.
    pub overlap: bool,
    /// Whether gates have a term for every place in the group.
    pub places: bool,
    /// What chooses among them; all are seen where nothing does.
    pub choice: Option<Choice>,
}

/// A choice among rows that stand for groups, by keys that are products of these rows, or sums like them.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Choice {
    /// Query heads.
    pub heads: usize,
    /// Values of a head, and of a key.
    pub width: usize,
    /// Groups that a row sees.
    pub keep: usize,
    /// What limits the choices of later layers.
    pub candidates: Option<Candidates>,
}

/// Neighbouring groups to which one layer's scores limit the choices of later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidates {
    /// The layer.
    pub layer: usize,
    /// Whether it has to be one that chooses.
    pub required: bool,
    /// Groups beside each other.
    pub size: usize,
    /// So many of those.
    pub keep: usize,
}
