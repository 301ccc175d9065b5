//! Handing disjoint rows of one buffer to the tasks of a region.

use super::Pool;
use super::shared::Shared;

/// Rows a task should take: all of them below `least` values, else a share that leaves a few tasks a thread.
pub(super) fn rows_per_task(rows: usize, cols: usize, least: usize, threads: usize) -> usize {
    let by_size = least.div_ceil(cols.max(1));
    rows.div_ceil(4 * threads.max(1)).max(by_size).max(1)
}

/// Calls `task(first_row, rows)` for consecutive blocks of `block` rows of `cols` values of `out`.
pub(super) fn for_row_blocks(
    pool: &Pool,
    out: &mut [f32],
    cols: usize,
    block: usize,
    task: &(dyn Fn(usize, &mut [f32]) + Sync),
) {
    let (total, chunk) = (out.len(), block * cols);
    if chunk == 0 {
        return;
    }
    let shared = Shared::new(out);
    pool.run(total.div_ceil(chunk), &|index| {
        let first = index * chunk;
        let len = chunk.min(total - first);
        // SAFETY: chunks of different tasks do not overlap.
        let rows = unsafe { shared.part(first..first + len) };
        task(index * block, rows);
    });
}
