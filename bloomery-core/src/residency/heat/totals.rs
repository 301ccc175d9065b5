//! Counts in the long run.

use std::ops::Range;

use super::Heat;
use crate::residency::shape::LayerShape;

/// Rows that are remembered. When there are more, all counts are halved: a server that runs for months still learns.
const ROWS: u64 = 1 << 15;

/// Choices of every expert, in 256ths, by flat number.
#[derive(Debug, Clone)]
pub(in crate::residency) struct Totals {
    counts: Vec<u32>,
    /// The sum of all counts, and the sum at which they are halved.
    sum: u64,
    most: u64,
}

impl Totals {
    pub(in crate::residency) fn new(shapes: &[LayerShape], heat: Option<&Heat>) -> Self {
        let mut counts = Vec::new();
        for (layer, shape) in shapes.iter().enumerate() {
            let known = heat.and_then(|heat| heat.layers.get(layer)).map_or(&[][..], Vec::as_slice);
            counts.extend((0..shape.experts).map(|expert| known.get(expert).copied().unwrap_or(0)));
        }
        let sum = counts.iter().map(|count| u64::from(*count)).sum();
        let used: u64 = shapes.iter().map(|shape| shape.used as u64).sum();
        Self { counts, sum, most: ROWS * 256 * used.max(1) }
    }

    #[inline]
    pub(in crate::residency) fn add(&mut self, flat: u32, choices: u64) {
        let count = &mut self.counts[flat as usize];
        *count = count.saturating_add(u32::try_from(choices).unwrap_or(u32::MAX));
        self.sum = self.sum.saturating_add(choices);
    }

    pub(in crate::residency) fn age(&mut self) {
        if self.sum > self.most {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.sum = self.counts.iter().map(|count| u64::from(*count)).sum();
        }
    }

    /// The choices, in 256ths, that experts of one layer are expected to have had in the last `rows` 256ths of a row: as often
    /// as in the long run, but no more than there were.
    pub(in crate::residency) fn expected(&self, layer: Range<u32>, used: usize, rows: u64) -> Vec<u64> {
        let counts = &self.counts[layer.start as usize..layer.end as usize];
        let sum: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        let known = (sum / used.max(1) as u64).max(1);
        counts.iter().map(|count| u64::from(*count) * rows.min(known) / known).collect()
    }

    pub(in crate::residency) fn heat(&self, starts: &[u32]) -> Heat {
        let layers = starts.windows(2).map(|ends| self.counts[ends[0] as usize..ends[1] as usize].to_vec());
        Heat { layers: layers.collect() }
    }
}
