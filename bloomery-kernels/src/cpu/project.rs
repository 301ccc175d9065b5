//! Projections: normalise, round, and multiply with several matrices in one parallel region.

use super::dots::Pick;
use super::lanes::{Kernel, Lanes, dispatch};
use super::norm::in_place;
use super::product::Operand;
use super::scratch::{Forms, Scratch, Want};
use super::shared::Shared;
use super::{Cpu, KernelError, Matrix, Norm};

/// One product of a projection.
#[derive(Debug)]
pub struct Part<'a> {
    /// The weights.
    pub weight: Matrix<'a>,
    /// Added to every row: `weight.rows()` values.
    pub bias: Option<&'a [f32]>,
    /// Rows of `weight.rows()` values.
    pub out: &'a mut [f32],
    /// Add to `out` instead of overwriting it.
    pub accumulate: bool,
}

/// A product whose activations are prepared.
pub(super) struct Job<'a> {
    pub(super) weight: Matrix<'a>,
    pub(super) bias: Option<&'a [f32]>,
    /// Multiplies the products of each activation row.
    pub(super) factors: Option<&'a [f32]>,
    pub(super) accumulate: bool,
    pub(super) operand: Operand<'a>,
    pub(super) out: Shared<'a, f32>,
}

impl Cpu {
    /// `out = x w^T (+ bias)` for every part, in one parallel region; `x` is `rows` rows, normalised first if `norm`
    /// says so. All weights have the columns of `x`.
    ///
    /// # Errors
    /// When a length does not fit the shapes, or a weight format has no product.
    pub fn project(
        &self,
        x: &[f32],
        rows: usize,
        norm: Option<Norm<'_>>,
        parts: &mut [Part<'_>],
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let Some(cols) = parts.first().map(|part| part.weight.cols()) else { return Ok(()) };
        for part in parts.iter() {
            check_weight("columns of a part", &part.weight, cols)?;
            KernelError::length("output of a part", rows * part.weight.rows(), part.out.len())?;
            if let Some(bias) = part.bias {
                KernelError::length("bias of a part", part.weight.rows(), bias.len())?;
            }
        }
        let weights: Vec<Matrix<'_>> = parts.iter().map(|part| part.weight).collect();
        let Scratch { normed, input, .. } = scratch;
        let x = self.prepare(x, rows, cols, norm, &weights, normed, input)?;
        let jobs: Vec<Job<'_>> = parts
            .iter_mut()
            .map(|part| Job {
                weight: part.weight,
                bias: part.bias,
                factors: None,
                accumulate: part.accumulate,
                operand: self.operand(&part.weight, rows, input, x),
                out: Shared::new(part.out),
            })
            .collect();
        self.products(&jobs);
        Ok(())
    }

    /// Normalises and rounds rows for `weights`; returns the rows that were rounded.
    #[expect(clippy::too_many_arguments, reason = "the parts of two structures, borrowed apart")]
    pub(super) fn prepare<'x>(
        &self,
        x: &'x [f32],
        rows: usize,
        cols: usize,
        norm: Option<Norm<'_>>,
        weights: &[Matrix<'_>],
        normed: &'x mut Vec<f32>,
        forms: &mut Forms,
    ) -> Result<&'x [f32], KernelError> {
        KernelError::length("activations", rows * cols, x.len())?;
        let mut want = Want::default();
        weights.iter().for_each(|weight| want.add(self, weight));
        let x = match norm {
            None => {
                if want != Want::default() {
                    forms.fill(self, rows, cols, want, &|i| &x[i * cols..(i + 1) * cols]);
                }
                x
            }
            Some(norm) => {
                KernelError::length("gain", cols, norm.gain.len())?;
                normed.resize(rows * cols, 0.0);
                let out = Shared::new(normed);
                forms.fill(self, rows, cols, want, &|i| {
                    // SAFETY: row i belongs to the one task that asks for it, once.
                    let row = unsafe { out.part(i * cols..(i + 1) * cols) };
                    row.copy_from_slice(&x[i * cols..(i + 1) * cols]);
                    dispatch(self.isa, NormRow { row, norm });
                    row
                });
                &normed[..]
            }
        };
        let want = Want::tiles(self, weights, rows);
        forms.tile(self, rows, want, &|lane| (lane < rows).then_some(lane));
        Ok(x)
    }

    /// All of the `rows` prepared rows, as `weight` wants them.
    pub(super) fn operand<'a>(
        &self,
        weight: &Matrix<'_>,
        rows: usize,
        forms: &'a Forms,
        floats: &'a [f32],
    ) -> Operand<'a> {
        match self.gemm(weight, rows) {
            Some(gemm) => Operand::Tiles(gemm, forms.tiles(weight), 0..rows),
            None => Operand::Rows(forms.input(self, weight, floats), Pick::Range(0..rows)),
        }
    }

    /// Runs all jobs in one region.
    pub(super) fn products(&self, jobs: &[Job<'_>]) {
        let total = jobs.iter().map(|job| job.weight.rows()).sum();
        // (weight rows of a task, tasks side by side, tasks) of each job.
        let split = |job: &Job<'_>| {
            let chunk = job.operand.chunk(self, total);
            let wide = match job.operand {
                Operand::Rows(..) => 1,
                Operand::Tiles(..) => job.operand.len().div_ceil(job.operand.batch()),
            };
            (chunk, wide, job.weight.rows().div_ceil(chunk) * wide)
        };
        self.pool.run(jobs.iter().map(|job| split(job).2).sum(), &|mut task| {
            for job in jobs {
                let (chunk, wide, tasks) = split(job);
                if task >= tasks {
                    task -= tasks;
                    continue;
                }
                let first = task / wide * chunk;
                let rows = first..(first + chunk).min(job.weight.rows());
                let (at, operand) = match &job.operand {
                    Operand::Rows(..) => (0, job.operand.clone()),
                    Operand::Tiles(..) => {
                        let at = task % wide * job.operand.batch();
                        let end = job.operand.len().min(at + job.operand.batch());
                        (at, job.operand.range(at..end))
                    }
                };
                operand.multiply(self.isa, &job.weight, rows.clone(), &mut |i, values| {
                    let start = (at + i) * job.weight.rows();
                    // SAFETY: the tasks of a job differ in their weight rows or in their activation rows, and each
                    // pair of such rows has one value.
                    let out = unsafe { job.out.part(start + rows.start..start + rows.end) };
                    let bias = job.bias.map(|bias| &bias[rows.clone()]);
                    match job.factors {
                        None => deliver(values, bias, job.accumulate, out),
                        Some(factors) => weighted(values, factors[at + i], job.accumulate, out),
                    }
                });
                return;
            }
        });
    }
}

/// Normalises one row where it lies.
struct NormRow<'a> {
    row: &'a mut [f32],
    norm: Norm<'a>,
}

impl Kernel for NormRow<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        // SAFETY: the caller promises the instruction set of V.
        unsafe { in_place::<V>(self.row, self.norm) }
    }
}

/// `out (+)= values (+ bias)`.
fn deliver(values: &[f32], bias: Option<&[f32]>, accumulate: bool, out: &mut [f32]) {
    match (bias, accumulate) {
        (None, false) => out.copy_from_slice(values),
        (None, true) => out.iter_mut().zip(values).for_each(|(out, v)| *out += v),
        (Some(bias), false) => {
            out.iter_mut().zip(values).zip(bias).for_each(|((out, v), bias)| *out = v + bias);
        }
        (Some(bias), true) => {
            out.iter_mut().zip(values).zip(bias).for_each(|((out, v), bias)| *out += v + bias);
        }
    }
}

/// `out (+)= factor * values`.
fn weighted(values: &[f32], factor: f32, accumulate: bool, out: &mut [f32]) {
    let pairs = out.iter_mut().zip(values);
    if accumulate {
        pairs.for_each(|(out, v)| *out += factor * v);
    } else {
        pairs.for_each(|(out, v)| *out = factor * v);
    }
}

/// An error unless `weight` has `cols` columns and a product.
pub(super) fn check_weight(what: &'static str, weight: &Matrix<'_>, cols: usize) -> Result<(), KernelError> {
    if !super::dots::supports(weight.format()) {
        return Err(KernelError::NoProduct { format: weight.format() });
    }
    KernelError::length(what, cols, weight.cols())
}

#[cfg(test)]
mod tests;
