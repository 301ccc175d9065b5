//! The gated feed-forward block of dense layers.

use std::ops::Range;

use super::dots::MAX_ROWS;
use super::gemm::{PANEL, TILE_LANES};
use super::product::{CHUNK, Operand};
use super::project::{Job, check_weight};
use super::shared::Shared;
use super::{Activation, Cpu, KernelError, Matrix, Norm, Scratch};

/// The matrices of a gated feed-forward block: `down(activation(gate x) * (up x))`.
#[derive(Debug, Clone, Copy)]
pub struct Ffn<'a> {
    /// `[hidden][cols]`.
    pub gate: Matrix<'a>,
    /// `[hidden][cols]`.
    pub up: Matrix<'a>,
    /// `[cols][hidden]`.
    pub down: Matrix<'a>,
    /// What the gate goes through.
    pub activation: Activation,
    /// `[cols]`: the result is multiplied by the sigmoid of the product of these weights and the input.
    pub share: Option<&'a [f32]>,
    /// Whether results are added to what is there, or take its place.
    pub accumulate: bool,
}

impl<'a> Ffn<'a> {
    /// A block whose result is added as it is.
    #[must_use]
    pub fn new(gate: Matrix<'a>, up: Matrix<'a>, down: Matrix<'a>, activation: Activation) -> Self {
        Self { gate, up, down, activation, share: None, accumulate: true }
    }
}

impl Cpu {
    /// `out += down(activation(gate n) * (up n))` for `rows` rows, `n` being `x` or, with `norm`, `x` normalised; times the share,
    /// and without the sum, where `ffn` says so.
    ///
    /// # Errors
    /// When a length does not fit the shapes, or a weight format has no product.
    pub fn dense_ffn(
        &self,
        x: &[f32],
        rows: usize,
        norm: Option<Norm<'_>>,
        ffn: &Ffn<'_>,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let (cols, hidden) = (ffn.gate.cols(), ffn.gate.rows());
        check_weight("columns of gate", &ffn.gate, cols)?;
        check_weight("columns of up", &ffn.up, cols)?;
        check_weight("columns of down", &ffn.down, hidden)?;
        KernelError::length("rows of up", hidden, ffn.up.rows())?;
        KernelError::length("output of a feed-forward block", rows * ffn.down.rows(), out.len())?;
        if let Some(share) = ffn.share {
            KernelError::length("gate of a shared expert", cols, share.len())?;
        }
        let Scratch { normed, input, hidden_rows, hidden: hidden_forms, factors, .. } = scratch;
        let x = self.prepare(x, rows, cols, norm, &[ffn.gate, ffn.up], normed, input)?;
        if let Some(share) = ffn.share {
            self.share(x, share, factors);
        }
        hidden_rows.resize(rows * hidden, 0.0);
        let pair = GateUp {
            gate: (ffn.gate, self.operand(&ffn.gate, rows, input, x)),
            up: (ffn.up, self.operand(&ffn.up, rows, input, x)),
            activation: ffn.activation,
        };
        let to = Shared::new(hidden_rows);
        let chunk = pair.chunk(self, hidden);
        self.pool.run(hidden.div_ceil(chunk), &|task| {
            let range = task * chunk..((task + 1) * chunk).min(hidden);
            // SAFETY: tasks have disjoint weight rows; each (activation row, weight row) is one value.
            unsafe { pair.run(self, range, &to, 0) };
        });
        let none: Option<Norm<'_>> = None;
        let h = self.prepare(hidden_rows, rows, hidden, none, &[ffn.down], normed, hidden_forms)?;
        let operand = self.operand(&ffn.down, rows, hidden_forms, h);
        let out = Shared::new(out);
        let factors = ffn.share.map(|_| &factors[..]);
        let (weight, accumulate) = (ffn.down, ffn.accumulate);
        self.products(&[Job { weight, bias: None, factors, accumulate, operand, out }]);
        Ok(())
    }
}

/// The first half of a feed-forward block over prepared activations.
pub(super) struct GateUp<'a> {
    pub(super) gate: (Matrix<'a>, Operand<'a>),
    pub(super) up: (Matrix<'a>, Operand<'a>),
    pub(super) activation: Activation,
}

impl GateUp<'_> {
    /// Weight rows of a task.
    pub(super) fn chunk(&self, cpu: &Cpu, hidden: usize) -> usize {
        self.gate.1.chunk(cpu, hidden).min(self.up.1.chunk(cpu, hidden))
    }

    /// Hidden values `range` of every activation row: row `i` goes to row `first + i` of `to`, rows of as many values as the
    /// matrices have rows.
    ///
    /// # Safety
    /// Nobody else uses the values `range` of those rows of `to` during the call.
    pub(super) unsafe fn run(&self, cpu: &Cpu, range: Range<usize>, to: &Shared<'_, f32>, first: usize) {
        let batch = self.gate.1.batch().max(self.up.1.batch());
        let (mut few, mut many);
        let gates: &mut [f32] = if batch > MAX_ROWS {
            many = [0.0; TILE_LANES * PANEL];
            &mut many
        } else {
            few = [0.0; MAX_ROWS * CHUNK];
            &mut few
        };
        let (hidden, width) = (self.gate.0.rows(), range.len());
        for at in (0..self.gate.1.len()).step_by(batch) {
            let end = (at + batch).min(self.gate.1.len());
            self.gate.1.range(at..end).multiply(cpu.isa, &self.gate.0, range.clone(), &mut |i, values| {
                gates[i * width..(i + 1) * width].copy_from_slice(values);
            });
            self.up.1.range(at..end).multiply(cpu.isa, &self.up.0, range.clone(), &mut |i, values| {
                let start = (first + at + i) * hidden;
                // SAFETY: these values are the caller's, and the part ends before the next one starts.
                let out = unsafe { to.part(start + range.start..start + range.end) };
                self.activation.gate(cpu.isa, &gates[i * width..(i + 1) * width], values, out);
            });
        }
    }
}

#[cfg(test)]
mod tests;
