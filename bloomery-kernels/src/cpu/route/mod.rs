//! Choosing experts: router logits, the k largest, their weights.
//!
//! Activations stay f32 here whatever the numerics: near-ties decide experts, and one other expert changes a layer
//! far more than any rounding.

mod choose;

use super::dots::{Input, Pick};
use super::lanes::dispatch;
use super::product::Operand;
use super::project::{Job, check_weight};
use super::shared::Shared;
use super::{Cpu, KernelError, Matrix, Routes, Scratch, split};
use choose::{Weigh, open_groups, select};

/// How logits become scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum RouterScore {
    /// `e^logit / sum of e^logit` over all experts.
    #[default]
    Softmax,
    /// `1 / (1 + e^-logit)`.
    Sigmoid,
    /// `sqrt(ln(1 + e^logit))`.
    SqrtSoftplus,
}

/// Experts in groups, of which only some are open to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RouterGroups {
    /// Groups of neighbouring experts, all of one size.
    pub count: usize,
    /// Open groups of a row: those with the largest values, of equal ones the first. The value of a group is its largest
    /// score for softmax, the sum of its two largest for sigmoid, biases included.
    pub used: usize,
}

/// The weights of a router.
#[derive(Debug, Clone, Copy)]
pub struct RouterWeights<'a> {
    /// `[experts][cols]`.
    pub matrix: Matrix<'a>,
    /// Added to the scores when experts are chosen, not when they are weighted.
    pub bias: Option<&'a [f32]>,
    /// `[rows][used]`: experts that are chosen already, and only weighted.
    pub chosen: Option<&'a [u32]>,
}

impl<'a> From<Matrix<'a>> for RouterWeights<'a> {
    fn from(matrix: Matrix<'a>) -> Self {
        Self { matrix, bias: None, chosen: None }
    }
}

/// How a router chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct RouterSpec {
    /// Experts of a row: those with the largest scores, of equal ones the lower number.
    pub used: usize,
    /// What a logit means.
    pub score: RouterScore,
    /// Divide the weights of a row by their sum.
    pub renormalize: bool,
    /// Multiplies the weights.
    pub scale: f32,
    /// Experts in groups.
    pub groups: Option<RouterGroups>,
}

impl RouterSpec {
    /// Softmax over all experts, the largest `used` renormalised to sum 1.
    #[must_use]
    pub fn softmax(used: usize) -> Self {
        Self { used, score: RouterScore::Softmax, renormalize: true, scale: 1.0, groups: None }
    }

    /// An error unless so many experts can be chosen of as many as there are.
    fn check(&self, experts: usize) -> Result<(), KernelError> {
        let fits = |what, value, fits: bool, rule| {
            if fits { Ok(()) } else { Err(KernelError::Shape { what, value, rule }) }
        };
        let some = self.used > 0 && self.used <= experts;
        fits("experts of a row", self.used, some, "at least 1 and at most the number of experts")?;
        let Some(RouterGroups { count, used }) = self.groups else { return Ok(()) };
        // A group has two experts, so that it has two largest.
        let whole = count > 0 && experts.is_multiple_of(count) && experts / count >= 2;
        fits("groups of experts", count, whole, "a divisor of the number of experts, with two or more each")?;
        let open = used > 0 && used <= count && used * (experts / count) >= self.used;
        fits("open groups", used, open, "at most the groups, with enough experts")
    }
}

/// Logits one task selects from.
const LOGITS_PER_TASK: usize = 4096;

impl Cpu {
    /// Routes the `rows` rows of `n` (`[rows][router.cols()]`, normalised) with `router`: fills `routes`, the slots of a row by
    /// descending score. A NaN logit counts as the smallest.
    ///
    /// # Errors
    /// [`KernelError::Length`] when `n` does not hold `rows` rows or there is no bias for each expert, [`KernelError::Shape`]
    /// when `spec.used` is zero or more than there are experts or the groups do not fit, [`KernelError::NoProduct`] for a router
    /// of integers.
    pub fn route<'r>(
        &self,
        n: &[f32],
        rows: usize,
        router: impl Into<RouterWeights<'r>>,
        spec: &RouterSpec,
        routes: &mut Routes,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let RouterWeights { matrix: weight, bias, chosen: given } = router.into();
        let experts = weight.rows();
        check_weight("columns of the router", &weight, weight.cols())?;
        KernelError::length("router input", rows * weight.cols(), n.len())?;
        if let Some(bias) = bias {
            KernelError::length("bias of the router", experts, bias.len())?;
        }
        spec.check(experts)?;
        if let Some(given) = given {
            KernelError::length("chosen experts", rows * spec.used, given.len())?;
            for &expert in given {
                KernelError::below("chosen expert", expert as usize, experts)?;
            }
        }
        let Scratch { logits, scores, .. } = scratch;
        logits.resize(rows * experts, 0.0);
        scores.resize(rows * experts, 0.0);
        let operand = Operand::Rows(Input::Floats(n), Pick::Range(0..rows));
        let out = Shared::new(logits);
        self.products(&[Job { weight, bias: None, factors: None, accumulate: false, operand, out }]);
        (routes.rows, routes.used) = (rows, spec.used);
        routes.experts.resize(rows * spec.used, 0);
        routes.weights.resize(rows * spec.used, 0.0);
        let block = split::rows_per_task(rows, experts, LOGITS_PER_TASK, self.pool.threads());
        let (chosen, logits) = (Shared::new(&mut routes.experts), Shared::new(logits));
        let scores = Shared::new(scores);
        split::for_row_blocks(&self.pool, &mut routes.weights, spec.used, block, &|first, weights| {
            let count = weights.len() / spec.used;
            let part = first * experts..(first + count) * experts;
            // SAFETY: blocks of different tasks have different rows.
            let (chosen, logits, scores) = unsafe {
                (
                    chosen.part(first * spec.used..(first + count) * spec.used),
                    logits.part(part.clone()),
                    scores.part(part),
                )
            };
            let rows = chosen.chunks_exact_mut(spec.used).zip(weights.chunks_exact_mut(spec.used));
            let values = logits.chunks_exact_mut(experts).zip(scores.chunks_exact_mut(experts));
            for (row, ((chosen, weights), (logits, scores))) in (first..).zip(rows.zip(values)) {
                // Softmax keeps the order of logits, so that the choice needs no scores.
                let plain = spec.score == RouterScore::Softmax && bias.is_none();
                if plain {
                    scores.copy_from_slice(logits);
                }
                let total = dispatch(self.isa, Weigh { spec, logits });
                if !plain {
                    scores.copy_from_slice(logits);
                    if spec.score == RouterScore::Softmax {
                        scores.iter_mut().for_each(|score| *score /= total);
                    }
                    let bias = bias.into_iter().flatten();
                    scores.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
                }
                if let Some(groups) = spec.groups {
                    open_groups(scores, groups, spec.score);
                }
                match given {
                    Some(given) => chosen.copy_from_slice(&given[row * spec.used..][..spec.used]),
                    None => select(scores, chosen),
                }
                let mut among = 0.0;
                for (weight, &expert) in weights.iter_mut().zip(&*chosen) {
                    *weight = logits[expert as usize];
                    among += *weight;
                }
                // Of scores that may all be zero.
                let tiny = if spec.score == RouterScore::SqrtSoftplus { 1e-20 } else { 0.0 };
                let divisor = if spec.renormalize { among + tiny } else { total };
                for weight in weights {
                    *weight = *weight / divisor * spec.scale;
                }
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
