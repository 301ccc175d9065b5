//! What there are kernels for.

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::{KvType, Numerics};
use bloomery_kernels::cuda::{HeadWeights, TILE_ROWS, embeds, gates, multiplies};

use super::load::{StackUse, stack_uses, stored_bytes, uses};
use super::ops::{
    add_norm, attend, carry, delta, hyper, index, ngrams, pair, per_head, rope, route, streams, summaries,
    windowed,
};
use super::residual::Residual;
use crate::program::{Op, Program};
use crate::units::Bytes;
use crate::weights::{MatrixId, Packed, Weights};

/// Allocations on a card are multiples of this.
const GRANULE: u64 = 256;

/// Bytes of all weights in the memory of a card.
pub(crate) fn weight_bytes(program: &Program, weights: &Weights, gguf: &Gguf) -> Bytes {
    let of_steps = stack_bytes(program, weights, gguf, StackUse::Steps);
    dense_bytes(program, weights, gguf) + of_steps + guess_bytes(program, weights, gguf)
}

/// Bytes of the experts that only guesses need.
pub(crate) fn guess_bytes(program: &Program, weights: &Weights, gguf: &Gguf) -> Bytes {
    stack_bytes(program, weights, gguf, StackUse::Guesses)
}

fn stack_bytes(program: &Program, weights: &Weights, gguf: &Gguf, kind: StackUse) -> Bytes {
    let stacks: Vec<Packed<'_>> = weights.packed_stacks(gguf).collect();
    let used = stacks.iter().zip(stack_uses(program, stacks.len())).filter(|(_, used)| *used == kind);
    used.map(|(packed, _)| Bytes((stored_bytes(packed, true) as u64).next_multiple_of(GRANULE))).sum()
}

/// Bytes of one expert of the stack in the memory of a card.
pub(crate) fn expert_bytes(stack: &Packed<'_>) -> u64 {
    (stored_bytes(stack, true) / stack.count.max(1)) as u64
}

/// Bytes of all weights but experts in the memory of a card.
pub(crate) fn dense_bytes(program: &Program, weights: &Weights, gguf: &Gguf) -> Bytes {
    let matrices: Vec<Packed<'_>> = weights.packed_matrices(gguf).collect();
    let mut sizes: Vec<usize> = Vec::new();
    for (packed, needed) in matrices.iter().zip(uses(program, matrices.len())) {
        sizes.extend(needed.product.then(|| stored_bytes(packed, true)));
        sizes.extend(needed.table.then(|| stored_bytes(packed, false)));
    }
    sizes.extend(weights.heads_ids().map(|id| {
        let (count, rows, cols) = weights.heads_shape(id);
        2 * HeadWeights::packed_len(count, rows, cols)
    }));
    sizes.extend(weights.vector_ids().map(|id| weights.vector_len(id) * 4));
    sizes.extend(weights.numbers_ids().map(|id| weights.numbers(id).len() * 4));
    sizes.into_iter().map(|size| Bytes((size as u64).next_multiple_of(GRANULE))).sum()
}

/// Why the program cannot run on a card, if it cannot.
pub(crate) fn unsupported(
    program: &Program,
    weights: &Weights,
    gguf: &Gguf,
    kv: KvType,
    numerics: Numerics,
) -> Option<String> {
    unsupported_dense(program, weights, gguf, kv, numerics).or_else(|| {
        let stacks: Vec<Packed<'_>> = weights.packed_stacks(gguf).collect();
        program.all_ops().find_map(|op| match op {
            Op::Experts { experts, .. } => {
                unsupported_experts([experts.gate, experts.up, experts.down].map(|id| &stacks[id.index()]))
            }
            _ => None,
        })
    })
}

/// Why the program could not run on a card even if all experts were elsewhere.
pub(crate) fn unsupported_dense(
    program: &Program,
    weights: &Weights,
    gguf: &Gguf,
    kv: KvType,
    numerics: Numerics,
) -> Option<String> {
    if numerics == Numerics::Exact {
        return Some("exact numerics are the CPU's".to_owned());
    }
    let check = Check { program, weights, kv, matrices: weights.packed_matrices(gguf).collect() };
    program
        .all_ops()
        .find_map(|op| check.op(op))
        .or_else(|| program.attentions.iter().find_map(|attention| attend::unsupported(attention, kv)))
        .or_else(|| program.deltas.iter().find_map(delta::unsupported))
        .or_else(|| lonely(program))
        .or_else(|| residual(program))
}

/// The route before a shared expert computes its share.
fn lonely(program: &Program) -> Option<String> {
    let mut routed = None;
    program.all_ops().find_map(|op| match op {
        Op::Route { normed, .. } => {
            routed = Some(*normed);
            None
        }
        Op::Gated { normed, gated, .. } if gated.share.is_some() && routed != Some(*normed) => {
            Some("a gated network without routed ones".to_owned())
        }
        _ => None,
    })
}

/// Ops of residual streams have kernels where they follow each other.
fn residual(program: &Program) -> Option<String> {
    let guess = program.draft.iter().flat_map(|draft| &draft.ops);
    [program.step_ops().collect::<Vec<_>>(), guess.collect()].iter().find_map(|ops| {
        let mut at = 0;
        while at < ops.len() {
            match Residual::of(ops[at..].iter().copied()) {
                Some((residual, count)) => {
                    if let Some(why) = residual.unsupported() {
                        return Some(why);
                    }
                    at += count;
                }
                None if ops[at].is_of_reading() => return Some(ops[at].name().to_owned()),
                None => at += 1,
            }
        }
        None
    })
}

/// Why there is no kernel for a layer's experts: gate, up, down.
pub(crate) fn unsupported_experts(stacks: [&Packed<'_>; 3]) -> Option<String> {
    stacks.iter().find_map(|stack| product(stack)).or_else(|| alike(stacks[0], stacks[1]))
}

struct Check<'g> {
    program: &'g Program,
    weights: &'g Weights,
    kv: KvType,
    matrices: Vec<Packed<'g>>,
}

impl Check<'_> {
    fn op(&self, op: &Op) -> Option<String> {
        match op {
            Op::Embed { table, .. } => self.table(*table),
            Op::Pair { table, x, streams, .. } => {
                self.table(*table).or_else(|| pair::unsupported(*x, *streams))
            }
            Op::Previous { out, .. } | Op::Carried { out } => carry::unsupported(*out),
            Op::Project { parts, .. } => parts.iter().find_map(|part| self.matrix(part.weight)),
            Op::Route { router, used, .. } => route::unsupported(router, &self.matrices, *used),
            Op::Absorb { keys: heads, .. } | Op::PerHead { weights: heads, .. } => {
                per_head::unsupported(self.weights, *heads)
            }
            Op::RopeAppend { attention, .. } => rope::unsupported(&self.program.attentions[attention.0]),
            Op::AddNorm { x, .. } => add_norm::unsupported(*x),
            Op::Gated { gated, .. } => {
                let ids = [gated.gate, gated.up, gated.down];
                ids.iter()
                    .find_map(|id| self.matrix(*id))
                    .or_else(|| alike(&self.matrices[gated.gate.index()], &self.matrices[gated.up.index()]))
            }
            Op::ProjectStreams { part, .. } => self.matrix(part.weight),
            Op::StreamMean { x, streams, .. } => streams::odd(*streams, x.cols / streams),
            Op::Copy { x, .. } => streams::odd(1, x.cols),
            Op::Ngrams { ngrams: id, .. } | Op::NgramMix { ngrams: id, .. } => {
                let layer = &self.program.ngrams[id.0];
                self.table(layer.table).or_else(|| ngrams::unsupported(layer))
            }
            Op::IndexAppend { index, .. } | Op::Select { index, .. } => {
                index::unsupported(&self.program.indexes[index.0])
            }
            Op::SharedAppend { attention, .. } => {
                windowed::append_unsupported(&self.program.attentions[attention.0])
            }
            Op::AttendPart { attention, .. } => {
                windowed::part_unsupported(&self.program.attentions[attention.0], self.kv)
            }
            Op::TurnBack { attention, .. } => {
                windowed::turn_unsupported(&self.program.attentions[attention.0])
            }
            Op::Summarise { group, .. } => summaries::unsupported(&self.program.groups[group.0]),
            Op::SummaryAppend { attention, .. } => {
                summaries::unsupported_append(&self.program.attentions[attention.0])
            }
            Op::HyperLast { x, out, .. } => hyper::odd(*x, *out),
            // Looked at in their order.
            Op::StreamNorm { .. }
            | Op::ScaledSilu { .. }
            | Op::GatedMean { .. }
            | Op::Inject { .. }
            | Op::HyperRead { .. }
            | Op::HyperWrite { .. }
            | Op::Experts { .. }
            | Op::LatentAppend { .. }
            | Op::Delta { .. }
            | Op::Attend { .. }
            | Op::Blend { .. }
            | Op::SelectEnds { .. }
            | Op::Gate { .. }
            | Op::Take { .. }
            | Op::Norm { .. } => None,
        }
    }

    fn table(&self, id: MatrixId) -> Option<String> {
        let table = &self.matrices[id.index()];
        (!embeds(table.format)).then(|| without(table, "token table"))
    }

    fn matrix(&self, id: MatrixId) -> Option<String> {
        let weight = &self.matrices[id.index()];
        product(weight).or_else(|| scattered(weight))
    }
}

fn product(weight: &Packed<'_>) -> Option<String> {
    (!multiplies(weight.format, weight.cols)).then(|| without(weight, "product"))
}

/// Rows that lie apart in the file are joined by whole tiles.
fn scattered(weight: &Packed<'_>) -> Option<String> {
    let each = weight.rows / weight.pieces.len().max(1);
    let text = || {
        format!(
            "rows of `{}` lie apart in pieces of {each}, which are no multiple of {TILE_ROWS}",
            weight.name
        )
    };
    (weight.pieces.len() > 1 && !each.is_multiple_of(TILE_ROWS)).then(text)
}

/// One kernel reads both.
fn alike(gate: &Packed<'_>, up: &Packed<'_>) -> Option<String> {
    if !gates(gate.format) {
        return Some(without(gate, "gate"));
    }
    let text = || format!("`{}` is stored as {}, `{}` as {}", gate.name, gate.format, up.name, up.format);
    (gate.format != up.format).then(text)
}

pub(super) fn without(weight: &Packed<'_>, what: &str) -> String {
    let Packed { name, format, cols, .. } = weight;
    format!("tensor `{name}` is stored as {format} in rows of {cols}, there is no {what} of that")
}
