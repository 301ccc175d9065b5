//! Steps some of whose rows stop at the program's cut.

use std::path::Path;

use crate::backend::{Answer, Backend, Batch, Deep, Readback};
use crate::engine::Engine;
use crate::plan::Placement;
use crate::program::Narrow;
use crate::state::{PAGE, PageId};

/// Rows of the prompt, and tokens that follow.
const ROWS: usize = 200;
const MORE: usize = 50;

fn text(seed: usize) -> Vec<u32> {
    (0..ROWS + MORE).map(|at| ((at * 7919 + at / 5 * 31 + seed * 77) % 500) as u32).collect()
}

/// Logits after the prompt and after each token that follows; the prompt's rows before `first` stop at the cut.
fn run(backend: &mut dyn Backend, text: &[u32], (narrow, first): (Narrow, usize)) -> Vec<u32> {
    let pages: Vec<PageId> = (0..text.len().div_ceil(PAGE) as PageId).collect();
    let mut found = Vec::new();
    let (prompt, more) = text.split_at(ROWS);
    let ends = (ROWS + 1..=text.len()).zip(more).map(|(end, token)| (end, std::slice::from_ref(token)));
    for (end, tokens) in std::iter::once((ROWS, prompt)).chain(ends) {
        let positions: Vec<u32> = (end - tokens.len()..end).map(|position| position as u32).collect();
        let (before, outputs) = (&text[..end - tokens.len()], [tokens.len() - 1]);
        let first = if end == ROWS { first } else { 0 };
        let (skipped, left) = ([&text[..end - tokens.len() + first]], [outputs[0] - first]);
        let deep = Deep { narrow, first, before: &skipped, outputs: &left };
        let batch = Batch {
            tokens,
            positions: &positions,
            sequences: &vec![0; tokens.len()],
            before: &[before],
            following: &[],
            pages: &[&pages],
            states: &[],
            saves: &[],
            outputs: &outputs,
            want: Readback::Logits,
            deep: (first > 0).then_some(deep),
            trace: None,
            stages: None,
        };
        match backend.step(batch).unwrap() {
            Answer::Rows(logits) => found.extend(logits.iter().map(|logit| logit.to_bits())),
            Answer::Top { .. } => unreachable!("logits were asked for"),
        }
    }
    found
}

/// Not one row fewer than the depth is enough, and all that follow are right as well.
#[test]
fn depth_is_as_many_rows_as_the_last_one_needs() {
    for name in ["deepseek41-small-bf16", "deepseek41-k-q4_k"] {
        let path = format!("{}/tests/data/models/{name}.gguf", env!("CARGO_MANIFEST_DIR"));
        let builder = Engine::builder(Path::new(&path)).placement(Placement::Cpu);
        let plan = builder.plan().unwrap();
        let narrow = Narrow::of(&plan.program).unwrap();
        let mut backend = super::CpuBackend::new(plan, 8).unwrap();
        let (wanted, other) = (text(1), text(2));
        let whole = run(&mut backend, &wanted, (narrow, 0));
        for (first, fits) in
            [(ROWS - narrow.depth, true), (ROWS - narrow.depth - 9, true), (ROWS - narrow.depth + 1, false)]
        {
            // Keys that are missing are another text's.
            run(&mut backend, &other, (narrow, 0));
            let found = run(&mut backend, &wanted, (narrow, first));
            assert_eq!(found == whole, fits, "{name}: {first} of {ROWS} rows stop at the cut");
        }
    }
}
