//! What steps only read.

use bloomery_kernels::cuda::{HeadWeights, Rope, Span, Weight, WeightStack};

use super::angles::Ropes;
use super::load::Stored;
use crate::program::{Attention, AttentionId, Gain, Group, GroupId, Index, IndexId, Op, Program};
use crate::weights::{HeadsId, MatrixId, NumbersId, StackId, VectorId};

/// The program and its weights.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) program: Program,
    stored: Stored,
    ropes: Ropes,
    /// For every buffer that [`Op::Take`] fills, the one it takes from.
    taken: Vec<Option<usize>>,
}

impl Model {
    pub(super) fn new(program: Program, stored: Stored, ropes: Ropes) -> Self {
        let mut taken = vec![None; program.buffers.len()];
        for op in program.all_ops() {
            if let Op::Take { from, to } = op {
                taken[to.index] = Some(from.index);
            }
        }
        Self { program, stored, ropes, taken }
    }

    /// A matrix that there are products with.
    pub(super) fn matrix(&self, id: MatrixId) -> &Weight {
        self.stored.matrices[id.index()].as_ref().expect("an op of the program multiplies with it")
    }

    /// A matrix whose rows are looked up.
    pub(super) fn table(&self, id: MatrixId) -> &Weight {
        self.stored.tables[id.index()].as_ref().expect("an op of the program looks rows up in it")
    }

    pub(super) fn stack(&self, id: StackId) -> &WeightStack {
        self.stored.stacks[id.index()].as_ref().expect("experts of guesses, or of a plan without a split")
    }

    /// The matrices of a layer's heads.
    pub(super) fn heads(&self, id: HeadsId) -> &HeadWeights {
        &self.stored.heads[id.index()]
    }

    pub(super) fn vector(&self, id: VectorId) -> Span<f32> {
        self.stored.vectors[id.index()].clone()
    }

    /// Experts by token.
    pub(super) fn numbers(&self, id: NumbersId) -> Span<u32> {
        self.stored.numbers[id.index()].clone()
    }

    /// A norm as launchers take it.
    pub(super) fn norm(&self, gain: Gain) -> (Span<f32>, f32) {
        (self.vector(gain.gain), gain.norm.eps)
    }

    pub(super) fn attention(&self, id: AttentionId) -> &Attention {
        &self.program.attentions[id.0]
    }

    pub(super) fn rope(&self, id: AttentionId) -> &Rope {
        &self.ropes.attentions[id.0]
    }

    pub(super) fn index(&self, id: IndexId) -> &Index {
        &self.program.indexes[id.0]
    }

    pub(super) fn group(&self, id: GroupId) -> &Group {
        &self.program.groups[id.0]
    }

    /// The rotation of an index whose queries and keys turn.
    pub(super) fn index_rope(&self, id: IndexId) -> &Rope {
        self.ropes.indexes[id.0].as_ref().expect("an index whose queries turn has one")
    }

    /// Where the values of a buffer are when all rows are taken.
    pub(super) fn taken_from(&self, buffer: usize) -> usize {
        self.taken[buffer].unwrap_or(buffer)
    }
}
