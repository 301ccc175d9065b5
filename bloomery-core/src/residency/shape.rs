//! What there is to place, and by which rules.

/// A routed layer, by its number among the routed layers in the program's order, and one of its experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Expert {
    pub(crate) layer: u32,
    pub(crate) expert: u32,
}

/// Slots of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolShape {
    /// Most residents.
    pub(crate) slots: usize,
    /// Slots beyond them, for what is on its way.
    pub(crate) ring: usize,
    /// What a move copies.
    pub(crate) expert_bytes: u64,
}

/// A routed layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayerShape {
    pub(crate) experts: usize,
    /// Experts that a row chooses.
    pub(crate) used: usize,
    /// The pool its experts fit; none: they are never on the card.
    pub(crate) pool: Option<usize>,
    /// Whether its experts may have slots for longer than a step.
    pub(crate) resident: bool,
}

/// All routed layers and all pools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    pub(crate) layers: Vec<LayerShape>,
    pub(crate) pools: Vec<PoolShape>,
}

/// How residency changes. Times are steps that decoded rows; a *choice* is one row's choice of one expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Whether anything moves at all.
    pub(crate) adaptive: bool,
    /// Most moves that start after a step. They should be copied within a step: of experts of 2.6 MB, 16 take 1.7 ms at 25 GB/s.
    pub(crate) moves: usize,
    /// Steps from the start of a copy to its landing, at least 1. With 2 a copy has the time of one whole step.
    pub(crate) delay: u64,
    /// Steps after which a choice counts half, at least 1.
    pub(crate) half_life: u32,
    /// 256ths of a choice by which an expert must be ahead of the resident whose slot it takes.
    pub(crate) margin: u32,
    /// Rows of decoding that the rows of a prompt in one step count as, at most.
    pub(crate) prompt_rows: u32,
}

/// From the traces of `tests/simulate.rs` with slots for 5 to 50 % of the experts, in percent of the choices that are hits:
/// - `half_life`: 16 is worth -0.9 to 1.5, for up to 6 more moves a row; 64 is worth -3.2 (topics of 100 rows) to 0.5.
/// - `margin`: a move costs about as much as a choice that is no hit, see [the module](super). Half of it gains at most 0.6, for up to 4
///   more moves a row, double loses up to 1.9.
/// - `moves`: 4 lose up to 10.9, 64 gain up to 2.7. Whoever knows how much can be copied during a step should say so.
/// - `prompt_rows`: as much as a half-life, so that a prompt weighs as much as all that other conversations have done before.
impl Default for Rules {
    fn default() -> Self {
        Self { adaptive: true, moves: 16, delay: 2, half_life: 32, margin: 256, prompt_rows: 32 }
    }
}
