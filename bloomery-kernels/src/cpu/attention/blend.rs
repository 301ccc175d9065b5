//! Attention over several caches: the softmax over all of what was computed of parts.

use crate::cpu::math::exp_one;
use crate::cpu::{Cpu, KernelError, split};

/// Values one task is worth.
const VALUES_PER_TASK: usize = 16 * 1024;

/// What [`Cpu::attention_part`] returned.
#[derive(Debug, Clone, Copy)]
pub struct AttendedPart<'a> {
    /// `[rows][heads][value_dim]`.
    pub values: &'a [f32],
    /// `[rows][heads]`: logarithms of the sums of `e^score`.
    pub sums: &'a [f32],
}

impl Cpu {
    /// `out = sum over parts of e^sum values / (sum over parts of e^sum + e^sink)`, head by head, with a sink for each of them.
    ///
    /// # Errors
    /// [`KernelError::Length`] for buffers that do not fit, [`KernelError::Shape`] for no heads.
    pub fn blend(
        &self,
        parts: [AttendedPart<'_>; 2],
        sinks: &[f32],
        value_dim: usize,
        out: &mut [f32],
    ) -> Result<(), KernelError> {
        let heads = sinks.len();
        if heads == 0 || value_dim == 0 {
            return Err(KernelError::Shape {
                what: "heads of blended parts",
                value: heads,
                rule: "at least 1",
            });
        }
        let width = heads * value_dim;
        let rows = out.len() / width;
        KernelError::length("blended attention", rows * width, out.len())?;
        for part in parts {
            KernelError::length("values of a part", out.len(), part.values.len())?;
            KernelError::length("sums of a part", rows * heads, part.sums.len())?;
        }
        let block = split::rows_per_task(rows, width, VALUES_PER_TASK, self.pool.threads());
        split::for_row_blocks(&self.pool, out, width, block, &|first, out| {
            for (at, out) in (first * heads..).zip(out.chunks_exact_mut(value_dim)) {
                let sums = parts.map(|part| part.sums[at]);
                let sink = sinks[at % heads];
                let most = sums[0].max(sums[1]).max(sink);
                let weights = sums.map(|sum| exp_one(sum - most));
                let total = weights[0] + weights[1] + exp_one(sink - most);
                let [a, b] = weights.map(|weight| weight / total);
                let [x, y] = parts.map(|part| &part.values[at * value_dim..][..value_dim]);
                for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                    *out = a * x + b * y;
                }
            }
        });
        Ok(())
    }
}
