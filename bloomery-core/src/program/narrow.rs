//! Where a program stops to look far back: what follows is needed of the last rows of a text alone.
//!
//! ```text
//! position     0 ..................... end - depth ......... end - 1
//! before `at`  every row: keys of all of them are read far later
//! after it     -                       each layer's window reaches into the rows of the layer before
//! ```

use super::{Attention, Candidates, Op, Program};
use crate::state::PAGE;

/// Positions before the end of a prompt at which the next turn of a conversation may part from it, and run nothing again: templates write
/// the end of a question otherwise when an answer follows.
const SPARE: usize = PAGE;

/// A program is worth two parts if so many times the layers after the cut are all of them, at least.
const SHARE: usize = 5;

/// A cut behind which layers have windows, and see what is before them by rows made in front of the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Narrow {
    /// Ops of a step before it.
    pub(crate) at: usize,
    /// Routed layers before it.
    pub(crate) routed: usize,
    /// Rows that go past the cut for one right row at the end.
    pub(crate) depth: usize,
    /// Rows before a position whose keys its layers read, behind the cut.
    pub(crate) reach: usize,
    /// Rows, in whole pages, that go past the cut before their keys are right in all layers.
    pub(crate) ramp: usize,
    /// Whether n-grams are looked up behind it.
    pub(crate) looks_up: bool,
}

impl Narrow {
    /// The cut of a program, if it has one that is worth it.
    pub(crate) fn of(program: &Program) -> Option<Self> {
        if program.state_len() > 0 {
            return None;
        }
        let ops: Vec<&Op> = program.step_ops().collect();
        let at = 1 + ops.iter().rposition(|op| is_far(program, op))?;
        let (before, after) = ops.split_at(at);
        let windows = |ops: &[&Op]| -> Vec<usize> {
            ops.iter().filter_map(|op| Some(appended(program, op)?.window.unwrap_or(0))).collect()
        };
        let narrow = windows(after);
        let is_worth_it = SHARE * narrow.len() >= narrow.len() + windows(before).len();
        let takes = before.iter().any(|op| matches!(op, Op::Take { .. }));
        if narrow.is_empty() || !is_worth_it || takes || !stands_alone(program, after) {
            return None;
        }
        let reaches: Vec<usize> = narrow.iter().map(|window| window.saturating_sub(1)).collect();
        let (all, last) = (reaches.iter().sum::<usize>(), reaches.last().copied().unwrap_or(0));
        Some(Self {
            at,
            routed: before.iter().filter(|op| matches!(op, Op::Experts { .. })).count(),
            depth: all + 1,
            reach: reaches.iter().copied().max().unwrap_or(0),
            ramp: (all - last).next_multiple_of(PAGE),
            looks_up: after.iter().any(|op| matches!(op, Op::Ngrams { .. })),
        })
    }

    /// The first row that has to go past the cut, a page boundary, where the row at `position` has to be right.
    pub(crate) fn first_deep(&self, position: usize) -> usize {
        (position.saturating_sub(self.reach + SPARE) / PAGE * PAGE).saturating_sub(self.ramp)
    }
}

/// The layer whose keys an op puts down, one for each row.
fn appended<'p>(program: &'p Program, op: &Op) -> Option<&'p Attention> {
    match op {
        Op::RopeAppend { attention, .. }
        | Op::SharedAppend { attention, .. }
        | Op::LatentAppend { attention, .. } => Some(&program.attentions[attention.0]),
        _ => None,
    }
}

/// Whether rows far behind need what an op leaves of a row.
fn is_far(program: &Program, op: &Op) -> bool {
    match op {
        Op::Summarise { .. } | Op::IndexAppend { .. } => true,
        // Rows of layers that guess are seen from a window.
        Op::SummaryAppend { attention, .. } => program.attentions[attention.0].window.is_none(),
        _ => appended(program, op).is_some_and(|attention| attention.window.is_none()),
    }
}

/// Whether ops choose themselves what they see and which experts they use.
fn stands_alone(program: &Program, ops: &[&Op]) -> bool {
    let (mut chosen, mut candidates, mut routed) = (false, false, false);
    ops.iter().all(|op| {
        match op {
            Op::Select { candidates: Candidates::Use { .. }, .. } if !candidates => return false,
            Op::Select { candidates: made, .. } => {
                chosen = true;
                candidates |= matches!(made, Candidates::Make { .. });
            }
            Op::SelectEnds { .. } => chosen = true,
            Op::Route { .. } => routed = true,
            _ => {}
        }
        match op {
            Op::Attend { attention, .. } | Op::AttendPart { attention, .. } => {
                let attention = &program.attentions[attention.0];
                chosen || !(attention.is_masked || attention.index.is_some())
            }
            Op::Experts { .. } => routed,
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::engine::Engine;
    use crate::plan::Placement;

    fn path(name: &str) -> PathBuf {
        format!("{}/tests/data/models/{name}.gguf", env!("CARGO_MANIFEST_DIR")).into()
    }

    fn of(name: &str) -> Option<Narrow> {
        Narrow::of(&Engine::builder(path(name)).placement(Placement::Cpu).plan().unwrap().program)
    }

    #[test]
    fn only_models_that_share_rows_have_a_cut() {
        for name in [
            "llama-small-bf16",
            "qwen3moe-small-bf16",
            "gemma3-small-bf16",
            "qwen35moe-small-bf16",
            "deepseek2-small-bf16",
            "qwen4exp-small-bf16",
            "glm5next-small-bf16",
            "deepseek4-small-bf16",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    /// Windows of 24: two layers after the one that makes rows for all that follow, or one.
    #[test]
    fn depth_is_what_the_windows_behind_the_cut_reach() {
        let found = of("deepseek41-small-bf16").unwrap();
        assert_eq!((found.depth, found.reach, found.ramp, found.routed), (47, 23, 64, 4));
        assert!(found.looks_up);
        // Layers that guess are no reason for more.
        let builder = Engine::builder(path("deepseek41-small-bf16")).block(path("dspark-deepseek41-bf16"));
        let with = Narrow::of(&builder.placement(Placement::Cpu).plan().unwrap().program).unwrap();
        assert_eq!((with.depth, with.reach, with.ramp), (found.depth, found.reach, found.ramp));
        assert!(with.at > found.at);
        let found = of("deepseek41-k-q4_k").unwrap();
        assert_eq!((found.depth, found.reach, found.ramp, found.routed), (24, 23, 0, 3));
    }

    #[test]
    fn rows_go_past_the_cut_from_a_page_on() {
        let narrow = Narrow { at: 1, routed: 0, depth: 2414, reach: 127, ramp: 2304, looks_up: false };
        for position in [0, 191, 2495, 2496, 2559, 2560, 100_000] {
            let first = narrow.first_deep(position);
            assert!(
                first.is_multiple_of(PAGE) && (first == 0 || first + narrow.depth + SPARE <= position + 1)
            );
            assert!(position < 2559 || first + narrow.depth + 3 * PAGE > position, "{position}: {first}");
        }
        assert_eq!([2558, 2559].map(|position| narrow.first_deep(position)), [0, 64]);
    }
}
