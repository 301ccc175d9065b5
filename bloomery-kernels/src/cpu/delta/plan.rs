//! Checking a call.

use std::ops::Range;

use super::{Delta, DeltaInput, DeltaRows, DeltaScratch};
use crate::cpu::KernelError;

/// Rows of one sequence.
#[derive(Debug, Clone, Copy)]
pub struct DeltaRun<'a> {
    /// First row.
    pub first: usize,
    /// Rows, at least one.
    pub rows: usize,
    /// Slot of the state before the first row; `None`: zeros, as before the first token.
    pub from: Option<usize>,
    /// `(row, slot)`: where to put the state after a row, rows ascending. What is not saved after the last row is lost.
    /// One of the slots may be `from`.
    pub saves: &'a [(usize, usize)],
}

impl DeltaRun<'_> {
    pub(super) fn range(&self) -> Range<usize> {
        self.first..self.first + self.rows
    }
}

/// The contract of `delta`; fills the scratch's lists of runs and returns the number of rows.
pub(super) fn check(
    delta: &Delta,
    input: &DeltaInput<'_>,
    runs: &[DeltaRun<'_>],
    states: &[f32],
    out: &[f32],
    scratch: &mut DeltaScratch,
) -> Result<usize, KernelError> {
    let shape = delta.shape;
    let rows = out.len() / shape.width();
    KernelError::length("results of a delta net", rows * shape.width(), out.len())?;
    match input.qkv {
        DeltaRows::Joined(all) => {
            KernelError::length("rows of a delta net", rows * shape.channels(), all.len())?;
        }
        DeltaRows::Apart([q, k, v]) => {
            let keys = rows * shape.key_heads * shape.head_dim;
            KernelError::length("queries of a delta net", keys, q.len())?;
            KernelError::length("keys of a delta net", keys, k.len())?;
            KernelError::length("values of a delta net", rows * shape.width(), v.len())?;
        }
    }
    let decays = if delta.bound.is_some() { shape.width() } else { shape.value_heads };
    KernelError::length("gate of a delta net", rows * shape.width(), input.z.len())?;
    KernelError::length("beta of a delta net", rows * shape.value_heads, input.beta.len())?;
    KernelError::length("alpha of a delta net", rows * decays, input.alpha.len())?;
    let slots = states.len() / shape.state_len();
    KernelError::length("states of a delta net", slots * shape.state_len(), states.len())?;
    let DeltaScratch { runs: of_rows, order, saves, .. } = scratch;
    of_rows.clear();
    saves.clear();
    for (index, run) in runs.iter().enumerate() {
        if run.first != of_rows.len() || run.rows == 0 || run.rows > rows - of_rows.len() {
            let rule = "the row after the last run, with rows left";
            return Err(KernelError::Shape { what: "first row of a run", value: run.first, rule });
        }
        of_rows.resize(run.first + run.rows, index);
        if let Some(from) = run.from {
            KernelError::below("state slot", from, slots)?;
        }
        let mut next = run.first;
        for &(row, slot) in run.saves {
            if row < next || row >= run.range().end {
                let rule = "a row of its run, after that of the save before";
                return Err(KernelError::Shape { what: "row of a saved state", value: row, rule });
            }
            KernelError::below("state slot", slot, slots)?;
            next = row + 1;
            saves.push((slot, index));
        }
    }
    KernelError::length("rows of all runs", rows, of_rows.len())?;
    saves.sort_unstable();
    let taken = |value| {
        let rule = "written once, and not read by another run";
        Err(KernelError::Shape { what: "state slot", value, rule })
    };
    if let Some(pair) = saves.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return taken(pair[0].0);
    }
    for (index, run) in runs.iter().enumerate() {
        let Some(from) = run.from else { continue };
        if let Ok(at) = saves.binary_search_by_key(&from, |save| save.0)
            && saves[at].1 != index
        {
            return taken(from);
        }
    }
    order.clear();
    order.extend(0..runs.len());
    order.sort_by_key(|&run| std::cmp::Reverse(runs[run].rows));
    Ok(rows)
}
