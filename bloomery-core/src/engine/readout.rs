//! What a turn brings back for a sampler.

use crate::sampling::{Needs, Sampled, Sampler, SamplingError, TopLogits};

/// Logits of the rows that a turn wanted some of.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Readout {
    /// Nothing was wanted, or nothing is known yet.
    #[default]
    None,
    /// Rows of the vocabulary's size, or hidden states.
    Rows(Vec<f32>),
    /// The largest logits of one row.
    Top(TopLogits),
}

impl Readout {
    /// All values; none where only the largest are known.
    pub(crate) fn rows(&self) -> &[f32] {
        match self {
            Self::Rows(rows) => rows,
            Self::None | Self::Top(_) => &[],
        }
    }

    pub(crate) fn into_rows(self) -> Vec<f32> {
        match self {
            Self::Rows(rows) => rows,
            Self::None | Self::Top(_) => Vec::new(),
        }
    }

    /// The id of the largest of a row of logits, the lowest of equals.
    pub(crate) fn best(row: &[f32]) -> u32 {
        let mut best = 0;
        for (id, logit) in row.iter().enumerate() {
            if *logit > row[best] {
                best = id;
            }
        }
        best as u32
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Row `index` of `count`; empty where only the largest values are known.
    pub(crate) fn row(&self, (index, count): (usize, usize)) -> &[f32] {
        let width = self.rows().len() / count;
        &self.rows()[index * width..][..width]
    }

    /// Draws a token from row `index` of `count`. What was read back must have been what the sampler
    /// [`needs`](Sampler::needs).
    pub(crate) fn sample(
        &self,
        row: (usize, usize),
        sampler: &mut Sampler,
        mask: Option<&[u32]>,
    ) -> Result<Sampled, SamplingError> {
        match self {
            Self::Top(top) => {
                debug_assert!(mask.is_none() && sampler.needs() != Needs::All);
                sampler.sample_top(top)
            }
            _ => sampler.sample(self.row(row), mask),
        }
    }
}
