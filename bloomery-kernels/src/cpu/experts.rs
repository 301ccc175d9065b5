//! Mixture-of-experts feed-forward blocks.
//!
//! ```text
//! sort the (row, slot) pairs by expert                                        counting sort, on the caller
//! hidden[pair] = activation(gate_e n) * (up_e n)                              region 1: experts x chunks of their rows
//! round hidden                                                                the caller; many rows: a region
//! out[row] += sum over slots of weight * down_e hidden[pair]                  region 2: chunks of output columns
//! ```
//!
//! An expert's weights are read once for all its rows, and a row's sum runs over its slots in order: neither other
//! rows nor threads nor chunks change a bit of it.

mod plan;

use super::ffn::GateUp;
use super::lanes::{Kernel, LANES as FLOATS, Lanes, dispatch};
use super::project::check_weight;
use super::scratch::{Forms, Want};
use super::shared::Shared;
use super::{Activation, Cpu, KernelError, Matrix, Scratch, Stack};
use plan::By;
pub(super) use plan::Plan;

/// In place of an expert's number: the slot is left out.
pub const NO_EXPERT: u32 = u32::MAX;

/// Which experts each row goes to, and with which weights.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Routes {
    /// Rows routed.
    pub rows: usize,
    /// Experts of a row.
    pub used: usize,
    /// `[rows][used]` expert indices, or [`NO_EXPERT`].
    pub experts: Vec<u32>,
    /// `[rows][used]` weights of the experts' outputs.
    pub weights: Vec<f32>,
}

/// The experts of a layer: expert e is `down_e(activation(gate_e x) * (up_e x))`.
#[derive(Debug, Clone, Copy)]
pub struct Experts<'a> {
    /// `[count][hidden][cols]`.
    pub gate: Stack<'a>,
    /// `[count][hidden][cols]`.
    pub up: Stack<'a>,
    /// `[count][cols][hidden]`.
    pub down: Stack<'a>,
    /// What the gate goes through.
    pub activation: Activation,
}

/// Output columns of a task: a panel of weight rows, for every expert.
const COLUMNS: usize = 32;

impl Cpu {
    /// `out[row] += sum over slots of weight * down_e(activation(gate_e n) * (up_e n))`, e being the slot's expert and `n` the
    /// row of `n`.
    ///
    /// # Errors
    /// When a length does not fit the shapes, a route leads to no expert, or a weight format has no product.
    pub fn experts(
        &self,
        n: &[f32],
        routes: &Routes,
        experts: &Experts<'_>,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        self.experts_beside(&mut || {}, n, routes, experts, out, scratch)
    }

    /// The same; the calling thread calls `beside` once, while the others begin to compute. What is refused does not call it.
    ///
    /// # Errors
    /// As [`Cpu::experts`].
    pub fn experts_beside(
        &self,
        beside: &mut dyn FnMut(),
        n: &[f32],
        routes: &Routes,
        experts: &Experts<'_>,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        experts.check(n, routes, out)?;
        let Some(shape) = experts.shape() else {
            beside();
            return Ok(());
        };
        let (cols, hidden, outputs) = (shape.gate.cols(), shape.gate.rows(), shape.down.rows());
        let Scratch { input, hidden_rows, hidden: hidden_forms, slots, plan, .. } = scratch;
        plan.sort(routes, experts.gate.count());
        let plan = &*plan;
        let pairs = plan.rows.len();
        if pairs == 0 {
            beside();
            return Ok(());
        }

        let mut want = Want::default();
        want.add(self, &shape.gate);
        want.add(self, &shape.up);
        input.fill(self, routes.rows, cols, want, &|i| &n[i * cols..(i + 1) * cols]);
        let want = Want::tiles(self, &[shape.gate, shape.up], plan.most());
        input.tile(self, plan.lanes.len(), want, &|lane| {
            plan.lanes.get(lane).copied().flatten().map(|place| plan.rows[place as usize] as usize)
        });
        hidden_rows.resize(pairs * hidden, 0.0);
        self.gate_up(beside, plan, experts, (n, input), hidden_rows);

        let mut want = Want::default();
        want.add(self, &shape.down);
        let rows = &hidden_rows[..];
        hidden_forms.fill(self, pairs, hidden, want, &|i| &rows[i * hidden..(i + 1) * hidden]);
        let want = Want::tiles(self, &[shape.down], plan.most());
        hidden_forms.tile(self, plan.lanes.len(), want, &|lane| {
            plan.lanes.get(lane).copied().flatten().map(|place| place as usize)
        });
        slots.resize(self.pool.threads() * pairs * COLUMNS, 0.0);
        let (slots, out) = (Shared::new(slots), Shared::new(out));
        self.pool.run_on(outputs.div_ceil(COLUMNS), &|task, thread| {
            let columns = task * COLUMNS..((task + 1) * COLUMNS).min(outputs);
            // SAFETY: tasks that run at the same time have different thread numbers.
            let slots = unsafe { slots.part(thread * pairs * COLUMNS..(thread + 1) * pairs * COLUMNS) };
            for group in &plan.groups {
                let down = experts.down.matrix(group.expert);
                let operand = plan.operand(self, group, &down, hidden_forms, rows, By::Place);
                operand.multiply(self.isa, &down, columns.clone(), &mut |i, values| {
                    let at = (group.first + i) * COLUMNS;
                    slots[at..at + values.len()].copy_from_slice(values);
                });
            }
            for row in 0..routes.rows {
                // SAFETY: tasks have disjoint columns, and a task holds one row's part at a time.
                let out = unsafe { out.part(row * outputs + columns.start..row * outputs + columns.end) };
                let pairs = row * routes.used..(row + 1) * routes.used;
                let (places, weights) = (&plan.places[pairs.clone()], &routes.weights[pairs]);
                dispatch(self.isa, Combine { slots, places, weights, out });
            }
        });
        Ok(())
    }

    /// Region 1: every group's hidden rows.
    fn gate_up(
        &self,
        beside: &mut dyn FnMut(),
        plan: &Plan,
        experts: &Experts<'_>,
        (n, input): (&[f32], &Forms),
        hidden_rows: &mut [f32],
    ) {
        let hidden = experts.gate.rows();
        let pairs: Vec<GateUp<'_>> = plan
            .groups
            .iter()
            .map(|group| {
                let (gate, up) = (experts.gate.matrix(group.expert), experts.up.matrix(group.expert));
                GateUp {
                    gate: (gate, plan.operand(self, group, &gate, input, n, By::Row)),
                    up: (up, plan.operand(self, group, &up, input, n, By::Row)),
                    activation: experts.activation,
                }
            })
            .collect();
        let total = hidden * pairs.len();
        // The end of each group's tasks.
        let mut tasks = 0;
        let ends: Vec<usize> = pairs
            .iter()
            .map(|pair| {
                tasks += hidden.div_ceil(pair.chunk(self, total));
                tasks
            })
            .collect();
        let to = Shared::new(hidden_rows);
        self.pool.run_beside(beside, tasks, &|task| {
            let index = ends.partition_point(|end| *end <= task);
            let (pair, group) = (&pairs[index], &plan.groups[index]);
            let chunk = pair.chunk(self, total);
            let start = (task - index.checked_sub(1).map_or(0, |before| ends[before])) * chunk;
            // SAFETY: tasks have different experts, so different rows of `to`, or disjoint ranges of weight rows.
            unsafe { pair.run(self, start..(start + chunk).min(hidden), &to, group.first) };
        });
    }
}

/// `out += sum over slots of weight * slots[place]`.
struct Combine<'a> {
    slots: &'a [f32],
    places: &'a [u32],
    weights: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Combine<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        for (c, out) in self.out.chunks_mut(FLOATS).enumerate() {
            let mut values = [0.0; FLOATS];
            // SAFETY: arrays and chunks of 16 values; the caller promises the instruction set.
            unsafe {
                let mut sum = V::splat(0.0);
                for (place, weight) in
                    self.places.iter().zip(self.weights).filter(|(at, _)| **at != NO_EXPERT)
                {
                    let at = *place as usize * COLUMNS + c * FLOATS;
                    sum = V::load(self.slots[at..at + FLOATS].as_ptr()).fma(V::splat(*weight), sum);
                }
                sum.store(values.as_mut_ptr());
            }
            out.iter_mut().zip(&values).for_each(|(out, value)| *out += value);
        }
    }
}

/// The first expert's matrices: all have their shapes and formats.
struct Shape<'a> {
    gate: Matrix<'a>,
    up: Matrix<'a>,
    down: Matrix<'a>,
}

impl<'a> Experts<'a> {
    /// `None` if there are no experts.
    fn shape(&self) -> Option<Shape<'a>> {
        let first = |stack: &Stack<'a>| (stack.count() > 0).then(|| stack.matrix(0));
        Some(Shape { gate: first(&self.gate)?, up: first(&self.up)?, down: first(&self.down)? })
    }

    fn check(&self, n: &[f32], routes: &Routes, out: &[f32]) -> Result<(), KernelError> {
        let (count, cols, hidden) = (self.gate.count(), self.gate.cols(), self.gate.rows());
        KernelError::length("experts of up", count, self.up.count())?;
        KernelError::length("experts of down", count, self.down.count())?;
        KernelError::length("rows of up", hidden, self.up.rows())?;
        if let Some(shape) = self.shape() {
            check_weight("columns of gate", &shape.gate, cols)?;
            check_weight("columns of up", &shape.up, cols)?;
            check_weight("columns of down", &shape.down, hidden)?;
        }
        KernelError::length("activations", routes.rows * cols, n.len())?;
        KernelError::length("output of the experts", routes.rows * self.down.rows(), out.len())?;
        KernelError::length("experts of the routes", routes.rows * routes.used, routes.experts.len())?;
        KernelError::length("weights of the routes", routes.rows * routes.used, routes.weights.len())?;
        for &expert in routes.experts.iter().filter(|expert| **expert != NO_EXPERT) {
            KernelError::below("expert", expert as usize, count)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
