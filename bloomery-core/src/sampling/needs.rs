//! How much of a row of logits a sampler looks at.

use super::chain::Step;
use super::{Mirostat, SamplingParams};

/// Most candidates that a card selects; chains that keep more are given whole rows.
pub const MOST_CANDIDATES: usize = 128;

/// How much of a row of logits [`Sampler::sample`](super::Sampler::sample) looks at, as far as that is known without a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Needs {
    /// The largest so many, equal ones by ascending id.
    Top(usize),
    /// All of them.
    All,
}

/// The largest logits of a row, best first, equal ones by ascending id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopLogits {
    pub(super) ids: Vec<u32>,
    pub(super) logits: Vec<f32>,
}

impl TopLogits {
    /// As many logits as ids; what is beyond the shorter of the two is left out.
    #[must_use]
    pub fn new(ids: &[u32], logits: &[f32]) -> Self {
        let len = ids.len().min(logits.len());
        Self { ids: ids[..len].to_vec(), logits: logits[..len].to_vec() }
    }

    /// The ids.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Their logits.
    #[must_use]
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// The largest logits of a whole row.
    #[must_use]
    pub fn of(logits: &[f32], k: usize) -> Self {
        let mut best = Vec::new();
        super::top::select_top(logits, k, &mut best);
        best.sort_unstable_by(super::candidates::by_rank);
        Self { ids: best.iter().map(|c| c.id).collect(), logits: best.iter().map(|c| c.logit).collect() }
    }
}

/// The first step decides: one that keeps the `k` best leaves nothing of the others to those after it, and so does greedy
/// choice. Everything that comes before, and everything that is reported of all logits, needs all of them.
pub(super) fn needs(params: &SamplingParams, steps: &[Step]) -> Needs {
    if params.n_probs > 0 || !params.logit_bias.is_empty() || params.mirostat != Mirostat::Off {
        return Needs::All;
    }
    match steps.first() {
        Some(Step::Temperature(t)) if *t <= 0.0 => Needs::Top(1),
        Some(Step::TopK(k)) if *k <= MOST_CANDIDATES => Needs::Top(*k),
        _ => Needs::All,
    }
}
