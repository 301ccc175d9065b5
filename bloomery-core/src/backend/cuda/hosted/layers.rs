//! The routed layers of a program, by number.

use crate::program::{Buffer, ExpertStacks, Op, Program};
use crate::weights::{StackId, Weights};

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend::cuda) struct RoutedLayer {
    pub(in crate::backend::cuda) stacks: ExpertStacks,
    /// Rows that are routed.
    pub(in crate::backend::cuda) normed: Buffer,
    pub(in crate::backend::cuda) experts: usize,
    /// Experts of a row.
    pub(in crate::backend::cuda) used: usize,
}

impl RoutedLayer {
    /// Gate, up and down.
    pub(super) fn ids(&self) -> [StackId; 3] {
        [self.stacks.gate, self.stacks.up, self.stacks.down]
    }
}

/// All of them, in the program's order.
pub(in crate::backend::cuda) fn routed_layers(program: &Program, weights: &Weights) -> Vec<RoutedLayer> {
    let mut used_now = 0;
    let mut layers = Vec::new();
    for op in &program.ops {
        match op {
            Op::Route { used, .. } => used_now = *used,
            Op::Experts { normed, experts, .. } => layers.push(RoutedLayer {
                stacks: *experts,
                normed: *normed,
                experts: weights.stack_count(experts.gate),
                used: used_now,
            }),
            _ => {}
        }
    }
    layers
}
