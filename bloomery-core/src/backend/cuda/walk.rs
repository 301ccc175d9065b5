//! The program as kernels.

use bloomery_kernels::cuda::{CudaError, Launch, Stream};

use super::frame::Frame;
use super::hosted::Experts;
use super::ops::{
    add_norm, attend, carry, delta, embed, feed_forward, gate, hyper, index, latent, ngrams, norm, pair,
    per_head, project, rope, route, streams, summaries, take,
    windowed::{self, Seen},
};
use super::residual::Residual;
use super::sizes::count;
use crate::program::{AttentionId, Buffer, Gated, Narrow, NgramId, Op, Program, Projection};
use crate::weights::VectorId;

/// The kernels of one op, or of two that are one on a card.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) launches: Vec<Launch>,
    /// Whether it chose experts, and how many for each row.
    pub(super) routed: Option<(usize, usize)>,
    /// What the host has to do with it.
    pub(super) hand: Option<Hand>,
}

/// The host's part in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hand {
    /// It computes experts of this routed layer for so many rows.
    Serve(usize, usize),
    /// It has experts brought before, and other ones after.
    Wave(usize),
    /// It reads rows of a table before.
    Find(NgramId),
}

impl Stage {
    pub(super) fn new(name: &'static str, launches: Vec<Launch>) -> Self {
        Self { name, launches, routed: None, hand: None }
    }
}

/// Everything but the head. Where no outputs are wanted, nothing that only they need.
pub(super) fn body(frame: &Frame<'_>) -> Result<Vec<Stage>, CudaError> {
    walk(frame, 0, trunk(frame))
}

/// What [`body`] has up to the program's cut, and what it has behind it.
pub(super) fn before_cut(frame: &Frame<'_>, narrow: Narrow) -> Result<Vec<Stage>, CudaError> {
    walk(frame, 0, trunk(frame).take(narrow.at))
}

/// See above.
pub(super) fn past_cut(frame: &Frame<'_>, narrow: Narrow) -> Result<Vec<Stage>, CudaError> {
    walk(frame, narrow.routed, trunk(frame).skip(narrow.at))
}

/// The ops of a step but for the head.
fn trunk<'a>(frame: &Frame<'a>) -> impl Iterator<Item = &'a Op> + Clone + use<'a> {
    let ops = frame.model.program.step_ops();
    ops.clone().take(ops.count().saturating_sub(1))
}

/// A pass of the block that guesses. One that goes on from the pass before finds what it begins with.
pub(super) fn guess(frame: &Frame<'_>, goes_on: bool) -> Result<Vec<Stage>, CudaError> {
    let draft = frame.model.program.draft.as_ref();
    walk(frame, 0, draft.iter().flat_map(|draft| draft.pass(goes_on)))
}

/// The kernels of ops of which the first routed layer is number `layer`.
fn walk<'a>(
    frame: &Frame<'_>,
    mut layer: usize,
    ops: impl Iterator<Item = &'a Op> + Clone,
) -> Result<Vec<Stage>, CudaError> {
    let mut ops = ops.peekable();
    let mut stages = Vec::new();
    let (mut used_now, mut first, mut seen) = (1, None, Seen::Nothing);
    while let Some(op) = ops.next() {
        if let Some((residual, count)) = Residual::of(std::iter::once(op).chain(ops.clone())) {
            stages.extend(residual.stages(frame)?);
            for _ in 1..count {
                ops.next();
            }
            continue;
        }
        match op {
            Op::Take { .. } if frame.outputs == 0 => break,
            Op::Attend { .. } if frame.outputs == 0 && matches!(ops.peek(), Some(Op::Take { .. })) => break,
            Op::Take { .. } if frame.takes_all() => {}
            Op::Embed { table, scale, copies, out } => {
                stages.push(Stage::new("embed", embed::launches(frame, *table, (*scale, *copies), *out)?))
            }
            Op::Project { x, norm, parts } => {
                let launches = project::launches(frame, *x, *norm, parts)?;
                stages.push(Stage::new(if norm.is_some() { "qkv" } else { "attention out" }, launches));
            }
            Op::RopeAppend { q, k, v, attention } => {
                stages.push(Stage::new("rope", rope::launches(frame, [*q, *k, *v], *attention)?));
            }
            Op::Attend { q, attention, out } if frame.model.attention(*attention).sinks.is_some() => {
                let turn = turned_back(ops.peek().copied(), *out);
                if turn.is_some() {
                    ops.next();
                }
                let launches = match frame.model.attention(*attention).sinks {
                    Some(sinks) => windowed::attend_with_sinks(frame, (*q, *attention), sinks, turn, *out)?,
                    None => attend::launches(frame, *q, *attention, *out)?,
                };
                stages.push(Stage::new("attention", launches));
            }
            Op::Attend { q, attention, out } => {
                stages.push(Stage::new("attention", attend::launches(frame, *q, *attention, *out)?));
            }
            Op::Take { from, to } => stages.push(Stage::new("take", take::launches(frame, *from, *to)?)),
            Op::Norm { x, norm: gain, out } => match ops.peek() {
                // The block normalises its rows itself.
                Some(Op::Gated { normed, gated, out: to }) if normed == out => {
                    let launches = feed_forward::dense(frame, *x, Some(*gain), gated, *to)?;
                    stages.push(Stage::new("feed-forward", launches));
                    ops.next();
                }
                _ => stages.push(Stage::new("norm", norm::launches(frame, *x, *gain, *out)?)),
            },
            Op::Route { x, norm, normed, router, used } => {
                let share = share_of(ops.clone(), *normed);
                let launches = route::launches(frame, [*x, *normed], *norm, (*router, share), *used)?;
                let routed = Some((*used, frame.rows_of(x.rows)));
                used_now = *used;
                stages.push(Stage { routed, ..Stage::new("route", launches) });
            }
            // A network that replaces what experts add to comes before them.
            Op::Gated { normed, gated, out } if is_before_experts(gated, (*normed, *out), ops.peek()) => {
                first = Some(gated);
            }
            Op::Experts { normed, experts, out } => {
                let beside = first.take().or_else(|| {
                    let found = ops.peek().and_then(|op| beside(op, *normed, *out));
                    if found.is_some() {
                        ops.next();
                    }
                    found
                });
                match frame.hosted {
                    None => {
                        let to = (beside, *out);
                        let launches = feed_forward::routed(frame, used_now, *normed, experts, to)?;
                        stages.push(Stage::new("experts", launches));
                    }
                    Some((slots, way)) => {
                        let (normed, act) = (*normed, experts.act);
                        let op = Experts { layer, used: used_now, normed, act, beside, out: *out };
                        stages.extend(slots.stages(frame, way, op)?);
                    }
                }
                layer += 1;
            }
            Op::Delta { qkv, z, beta, alpha, delta, out } => {
                let launches = delta::launches(frame, *qkv, [*z, *beta, *alpha], *delta, *out)?;
                stages.push(Stage::new("delta", launches));
            }
            Op::AddNorm { x, norm, out } => {
                stages.push(Stage::new("add norm", add_norm::launches(frame, *x, *norm, *out)?));
            }
            Op::Gated { normed, gated, out } => {
                let launches = feed_forward::dense(frame, *normed, None, gated, *out)?;
                stages.push(Stage::new("feed-forward", launches));
            }
            Op::Gate { x, gate } => match ops.peek() {
                // Gated where they are rounded.
                Some(Op::Project { x: of, norm: None, parts }) if of == x => {
                    let launches = project::gated(frame, *x, *gate, parts)?;
                    stages.push(Stage::new("attention out", launches));
                    ops.next();
                }
                _ => stages.push(Stage::new("gate", gate::launches(frame, *x, *gate)?)),
            },
            Op::Absorb { q, keys, out } => match ops.peek() {
                Some(Op::LatentAppend { q: absorbed, kv, norm, attention }) if absorbed == out => {
                    let (from, to) = ((*q, *keys), [*absorbed, *kv]);
                    let launches = latent::absorbing(frame, from, to, *norm, *attention)?;
                    stages.push(Stage::new("rope", launches));
                    ops.next();
                }
                _ => stages.push(Stage::new("heads", per_head::launches(frame, *q, *keys, *out)?)),
            },
            Op::PerHead { x, weights, out } => {
                stages.push(Stage::new("heads", per_head::launches(frame, *x, *weights, *out)?));
            }
            Op::LatentAppend { q, kv, norm, attention } => {
                let launches = latent::launches(frame, [*q, *kv], *norm, *attention)?;
                stages.push(Stage::new("rope", launches));
            }
            Op::Previous { x, out } => {
                stages.push(Stage::new("carry", carry::launches(frame, Some(*x), *out)?));
            }
            Op::Carried { out } => stages.push(Stage::new("carry", carry::launches(frame, None, *out)?)),
            Op::Pair { table, embedding_norm, x, norm, streams, out } => {
                let (embedding, row) = ((*table, *embedding_norm), (*x, *norm, *streams));
                stages.push(Stage::new("pair", pair::launches(frame, embedding, row, *out)?));
            }
            Op::ProjectStreams { x, part, streams } => {
                stages.push(Stage::new("pair", project::of_streams(frame, *x, part, *streams)?));
            }
            Op::StreamMean { x, streams, out, first } => {
                stages.push(Stage::new("streams", streams::mean(frame, *x, *streams, (*out, *first))?));
            }
            Op::Copy { x, out } => stages.push(Stage::new("carry", streams::mean(frame, *x, 1, (*out, 0))?)),
            Op::HyperLast { x, weights, out, .. } => {
                stages.push(Stage::new("streams", hyper::last(frame, *x, *weights, *out)?));
            }
            Op::Summarise { values, gates, group, out } => {
                let launches = summaries::launches(frame, *values, *gates, *group, *out)?;
                stages.push(Stage::new("groups", launches));
            }
            Op::SummaryAppend { rows, positions, attention } => {
                let launches = summaries::append(frame, *rows, *positions, *attention)?;
                stages.push(Stage::new("groups", launches));
            }
            Op::Ngrams { ngrams: id, out } => {
                let launches = ngrams::found(frame, *id, *out)?;
                stages.push(Stage { hand: Some(Hand::Find(*id)), ..Stage::new("n-grams", launches) });
            }
            Op::NgramMix { ngrams: id, key, value, x } => {
                stages.push(Stage::new("n-grams", ngrams::mix(frame, *id, [*key, *value, *x])?));
            }
            Op::IndexAppend { keys, gates, index: id } => {
                stages.push(Stage::new("index", index::append(frame, *keys, *gates, *id)?));
            }
            Op::Select { q, weights, index: id, candidates } => {
                seen = Seen::Chosen(*id);
                stages.push(Stage::new("select", index::select(frame, *q, *weights, *id, *candidates)?));
            }
            Op::SelectEnds { positions } => seen = Seen::Ends(*positions),
            Op::SharedAppend { q, k, attention } => {
                stages.push(Stage::new("rope", windowed::append(frame, [*q, *k], *attention)?));
            }
            Op::AttendPart { q, attention, out } => {
                let launches = windowed::attend_part(frame, *q, *attention, seen, *out)?;
                stages.push(Stage::new("attention", launches));
            }
            Op::Blend { parts, sinks, out } => {
                let turn = turned_back(ops.peek().copied(), *out);
                if turn.is_some() {
                    ops.next();
                }
                let launches = windowed::blend(frame, parts, *sinks, turn, *out)?;
                stages.push(Stage::new("attention", launches));
            }
            Op::TurnBack { x, attention } => {
                stages.push(Stage::new("attention", windowed::turn_back(frame, *x, *attention)?));
            }
            // They are found where others begin; in another order such programs are refused.
            Op::StreamNorm { .. }
            | Op::ScaledSilu { .. }
            | Op::GatedMean { .. }
            | Op::Inject { .. }
            | Op::HyperRead { .. }
            | Op::HyperWrite { .. } => {}
        }
    }
    Ok(stages)
}

/// The layer by which an op turns results back.
fn turned_back(op: Option<&Op>, out: Buffer) -> Option<AttentionId> {
    match op {
        Some(Op::TurnBack { x, attention }) if *x == out => Some(*attention),
        _ => None,
    }
}

/// The network of an op behind experts that is one beside them: of the same rows, added to the same ones. Its result is added before
/// theirs, in every step alike.
fn beside(op: &Op, rows: Buffer, to: Buffer) -> Option<&Gated> {
    match op {
        Op::Gated { normed, gated, out } if *normed == rows && *out == to && gated.accumulate => Some(gated),
        _ => None,
    }
}

/// Whether a network only replaces what experts of the same rows add to next.
fn is_before_experts(network: &Gated, (rows, to): (Buffer, Buffer), next: Option<&&Op>) -> bool {
    let experts = matches!(next, Some(Op::Experts { normed, out, .. }) if *normed == rows && *out == to);
    experts && !network.accumulate
}

/// The gate of a network beside the experts of the route that `ops` follow.
fn share_of<'a>(ops: impl Iterator<Item = &'a Op>, rows: Buffer) -> Option<VectorId> {
    ops.take_while(|op| !matches!(op, Op::Route { .. })).find_map(|op| match op {
        Op::Gated { normed, gated, .. } if *normed == rows => gated.share,
        _ => None,
    })
}

/// Logits of `rows` outputs from `first` on, to the start of their buffer.
pub(super) fn head(frame: &Frame<'_>, first: usize, rows: usize) -> Result<Stage, CudaError> {
    let launches = match frame.model.program.ops.last() {
        Some(Op::Project { x, norm, parts }) => {
            let parts: &[Projection] = parts;
            project::some(frame, *x, *norm, parts, first, rows)?
        }
        _ => Vec::new(),
    };
    Ok(Stage::new("head", launches))
}

/// Hidden states of the outputs, in place of the head.
pub(super) fn states(frame: &Frame<'_>) -> Result<Stage, CudaError> {
    let launches = match &frame.model.program.hidden.op {
        Some(Op::Norm { x, norm, out }) => norm::launches(frame, *x, *norm, *out)?,
        _ => Vec::new(),
    };
    Ok(Stage::new("states", launches))
}

/// Queues kernels one by one, once all of them are loaded: one of them may wait for the host. What stages want of the host was done
/// before.
pub(super) fn launch(stream: &mut Stream, stages: &[Stage]) -> Result<(), CudaError> {
    let mut kernels = stages.iter().flat_map(|stage| &stage.launches);
    kernels.clone().try_for_each(|kernel| kernel.load(stream.device()))?;
    kernels.try_for_each(|kernel| stream.launch(kernel))
}

/// The routed layers that the host serves in a step of `rows` rows, and their rows: those of [`body`].
pub(super) fn served(program: &Program, rows: usize, outputs: usize) -> Vec<(usize, usize)> {
    let mut layers = Vec::new();
    for op in &program.ops {
        match op {
            Op::Take { .. } if outputs == 0 => break,
            Op::Experts { normed, .. } => layers.push((layers.len(), count(normed.rows, rows, outputs))),
            _ => {}
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::sizes::Sizes;
    use crate::backend::cuda::unsupported;
    use crate::engine::Engine;
    use crate::plan::{Placement, Plan};

    fn plan(name: &str) -> Plan {
        let path = format!("{}/tests/data/models/{name}.gguf", env!("CARGO_MANIFEST_DIR"));
        Engine::builder(std::path::Path::new(&path)).placement(Placement::Cpu).plan().unwrap()
    }

    /// Routed layers, and the networks that run with their experts.
    fn routed(program: &Program) -> (usize, Vec<Gated>) {
        let (mut layers, mut found) = (0, Vec::new());
        for ops in program.ops.windows(2) {
            if let Op::Experts { normed, out, .. } = &ops[0] {
                layers += 1;
                found.extend(beside(&ops[1], *normed, *out).copied());
            }
            if let Op::Gated { normed, gated, out } = &ops[0] {
                found.extend(is_before_experts(gated, (*normed, *out), Some(&&ops[1])).then_some(*gated));
            }
        }
        (layers, found)
    }

    #[test]
    fn every_shared_expert_runs_with_the_experts_before_it() {
        for (name, shared) in [
            ("qwen35moe-k-q4_k_m", true),
            ("qwen35moe-small-bf16", true),
            ("deepseek2-k-q4_k_m", true),
            ("qwen4exp-k-q4_k_m", true),
            ("glm5next-k-q4_k_m", true),
            ("qwen3moe-k-q4_k_m", false),
        ] {
            let plan = plan(name);
            let (layers, found) = routed(&plan.program);
            assert!(layers > 0, "{name}");
            assert_eq!(found.len(), if shared { layers } else { 0 }, "{name}");
            // None is left over that has a share of a route before it.
            let lonely = plan.program.ops.windows(3).filter(|ops| match ops {
                [before, Op::Gated { gated, .. }, after] => {
                    gated.share.is_some()
                        && ![before, after].iter().any(|op| matches!(op, Op::Experts { .. }))
                }
                _ => false,
            });
            assert_eq!(lonely.count(), 0, "{name}");
        }
    }

    /// A table's rows are read before the stage that copies them, once a step: a second copy would wait for the kernels between.
    #[test]
    fn every_table_is_looked_up_once_and_before_it_is_mixed() {
        for (name, tables) in [("qwen4exp-k-q4_k_m", 1), ("deepseek41-k-q4_k", 2)] {
            let program = plan(name).program;
            let place = |wanted: &dyn Fn(&Op) -> bool| {
                let found: Vec<usize> =
                    program.step_ops().enumerate().filter(|(_, op)| wanted(op)).map(|(at, _)| at).collect();
                assert_eq!(found.len(), 1, "{name}");
                found[0]
            };
            assert!(program.ngrams.len() >= tables, "{name}");
            for id in (0..program.ngrams.len()).map(NgramId) {
                let found = place(&|op| matches!(op, Op::Ngrams { ngrams, .. } if *ngrams == id));
                let mixed = place(&|op| matches!(op, Op::NgramMix { ngrams, .. } if *ngrams == id));
                assert!(found < mixed, "{name}");
            }
        }
    }

    #[test]
    fn only_what_adds_the_same_rows_to_the_same_ones_is_beside_experts() {
        let plan = plan("qwen35moe-k-q4_k_m");
        let at = plan.program.ops.iter().position(|op| matches!(op, Op::Experts { .. })).unwrap();
        let Op::Experts { normed, out, .. } = plan.program.ops[at] else { unreachable!() };
        let Op::Gated { gated, .. } = plan.program.ops[at + 1] else { unreachable!() };
        let op = |normed, gated, out| Op::Gated { normed, gated, out };
        assert_eq!(beside(&op(normed, gated, out), normed, out), Some(&gated));
        assert_eq!(beside(&op(out, gated, out), normed, out), None);
        assert_eq!(beside(&op(normed, gated, normed), normed, out), None);
        let replaces = Gated { accumulate: false, ..gated };
        assert_eq!(beside(&op(normed, replaces, out), normed, out), None);
    }

    /// Experts and the network beside them are under way at once: what they work with is apart.
    #[test]
    fn both_have_room_at_once() {
        for name in ["qwen35moe-k-q4_k_m", "deepseek2-k-q4_k_m", "qwen4exp-k-q4_k_m", "glm5next-k-q4_k_m"] {
            let plan = plan(name);
            for rows in [1, 8, 600] {
                let (program, weights) = (&plan.program, &plan.weights);
                let sizes = Sizes::of(program, weights, plan.kv, (rows, 4));
                assert_eq!(unsupported(program, weights, &plan.gguf, plan.kv, plan.numerics), None);
                for ops in program.ops.windows(2) {
                    let (experts, gated) = match ops {
                        [Op::Experts { experts, .. }, Op::Gated { gated, .. }]
                        | [Op::Gated { gated, .. }, Op::Experts { experts, .. }] => (experts, gated),
                        _ => continue,
                    };
                    let (gate, down) = (experts.gate, experts.down);
                    let width = weights.stack_rows(gate);
                    let both = [
                        (
                            (sizes.used, weights.stack_count(gate)),
                            (weights.stack_cols(gate), width, weights.stack_rows(down)),
                        ),
                        (
                            (1, 1),
                            (
                                weights.matrix_cols(gated.gate),
                                weights.matrix_rows(gated.gate),
                                weights.matrix_rows(gated.down),
                            ),
                        ),
                    ];
                    let bytes =
                        both.map(|(experts, widths)| feed_forward::workspace_bytes(rows, experts, widths));
                    assert!(sizes.workspace >= bytes[0] + bytes[1], "{name}, {rows} rows");
                    let hidden =
                        both.map(|((used, _), (_, width, _))| feed_forward::hidden_len(rows, used, width));
                    assert!(sizes.ffn >= hidden[0] && sizes.dense >= hidden[1], "{name}, {rows} rows");
                }
            }
        }
    }
}
