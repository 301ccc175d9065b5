//! The weighted draw that ends the chain.

use super::candidates::Candidates;
use super::math;

/// A candidate drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    pub(super) id: u32,
    /// Its place in the list; its id where the vocabulary was not cut.
    pub(super) index: usize,
    /// Its probability among the candidates.
    pub(super) p: f32,
}

/// Draws by the softmax of the logits, `u` in [0, 1). None if no candidate is left.
pub(super) fn draw(c: &Candidates<'_>, u: f64) -> Option<Draw> {
    const BLOCK: usize = 1024;
    if c.is_empty() {
        return None;
    }
    let max = c.max();
    if max == f32::NEG_INFINITY {
        return None;
    }
    let Some(logits) = c.vocabulary() else {
        return walk(c.listed().iter().map(|t| (t.id, t.logit)), max, u, None);
    };
    // two passes: the sum of each block, then the block that holds the target, token by token
    let total: f64 = logits.chunks(BLOCK).map(|b| math::sum_exp(b, max)).sum();
    let target = u * total;
    let mut before = 0.0;
    for (block, start) in logits.chunks(BLOCK).zip((0u32..).step_by(BLOCK)) {
        let sum = math::sum_exp(block, max);
        if before + sum > target {
            let inside = ((target - before) / sum).clamp(0.0, 1.0);
            let drawn = walk((start..).zip(block.iter().copied()), max, inside, Some(total));
            return drawn.map(|d| Draw { index: d.id as usize, ..d });
        }
        before += sum;
    }
    None
}

/// Walks the weights until their sum passes `u` of it. `total` normalises p in place of the sum.
fn walk(
    tokens: impl Iterator<Item = (u32, f32)> + Clone,
    max: f32,
    u: f64,
    total: Option<f64>,
) -> Option<Draw> {
    let weights = tokens.map(|(id, logit)| (id, f64::from(math::exp(logit - max))));
    let sum: f64 = weights.clone().map(|w| w.1).sum();
    let mut run = 0.0;
    let mut last = None;
    for (index, (id, weight)) in weights.enumerate().filter(|w| w.1.1 > 0.0) {
        run += weight;
        last = Some(Draw { id, index, p: (weight / total.unwrap_or(sum)) as f32 });
        if run > u * sum {
            break;
        }
    }
    last
}
