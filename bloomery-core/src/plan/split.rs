//! A model whose experts do not all fit its card.

use std::path::PathBuf;

use super::HostExperts;
use crate::units::Bytes;

/// Which experts a card has room for, beside all other weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) pools: Vec<SlotPool>,
    /// Routed layers in the program's order.
    pub(crate) layers: Vec<LayerSplit>,
}

/// Slots for experts of one shape: equal formats, rows and columns in all three stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotPool {
    /// Where experts stay from step to step.
    pub(crate) slots: usize,
    /// More slots: where experts arrive.
    pub(crate) ring: usize,
    /// All three matrices of one expert, as the card holds them.
    pub(crate) expert: Bytes,
}

/// A routed layer's part of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayerSplit {
    /// Where its experts go; `None` where the card has no kernel for their format.
    pub(crate) pool: Option<usize>,
    /// Whether they may stay there, or only pass through with prompts.
    pub(crate) resident: bool,
}

/// Whether experts on the card change while the engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ResidencyMode {
    /// Those that are chosen often move in.
    #[default]
    Adaptive,
    /// Those of the start stay: the same text always gives the same bits.
    Off,
}

/// What a split depends on beside memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct SplitOptions {
    /// Most bytes of the card that a plan may use.
    pub(crate) card_budget: Option<Bytes>,
    /// What stays free of the card, unless the plan is to choose.
    pub(crate) card_margin: Option<Bytes>,
    pub(crate) host_experts: HostExperts,
    pub(crate) residency: ResidencyMode,
    /// Most rows of a step whose missing experts the host computes, unless that is measured.
    pub(crate) served_rows: Option<usize>,
    /// Where counts of earlier runs are read from and written to.
    pub(crate) heat: Option<PathBuf>,
}
