//! Causal attention of many rows over paged keys and values.
//!
//! # The definition
//!
//! For one row and head, over its visible positions, all in f32:
//!
//! ```text
//! for each chunk of 8 pages, ascending:
//!     for each page of the chunk, ascending:
//!         s[p] = scale * (sum over d ascending, fused, of q[d] k[p][d])         then the soft cap
//!         m'   = max(m, max s);  c = e^(m - m');  w[p] = e^(s[p] - m')          w = 0 where p is not visible
//!         l[i] = fused l[i] c + ((w[i] + w[16 + i]) + (w[32 + i] + w[48 + i]))   16 lanes
//!         o[d] = o[d] c, then fused + w[p] v[p][d] for p ascending
//!     merge (m, sum of l, o) of the chunk into those of the row: each side times e^(its m - the larger m)
//! result = o[d] / l
//! ```
//!
//! Pages and chunks are counted from position 0, so a result depends on nothing but the row itself: not on the rows
//! beside it, the number of threads or the instruction set. Chunks are what a long decode row is split into.
//!
//! # How it is run
//!
//! All query heads of a KV head, and up to 32 neighbouring rows of a sequence, form a tile that reads each
//! page once. Few tiles (decode): the tasks are (tile, chunk) and the last one to finish a tile's chunks merges them.
//! Many tiles (prefill): a task is a whole tile.

mod blend;
mod chunk;
mod convert;
mod plan;
mod register;
mod softmax;
mod source;
mod state;

use std::sync::atomic::{AtomicUsize, Ordering};

use super::kv::{KvLayer, PAGE};
use super::lanes::{Kernel, LANES, Lanes, dispatch};
use super::shared::Shared;
use super::{Aligned, Cpu, KernelError};
use chunk::Tile;
use plan::{check, some_seen, tile};

pub use blend::AttendedPart;

/// Pages of a chunk.
const CHUNK: usize = 8;
/// Tiles wanted for each thread before whole tiles become tasks.
const TILES_PER_THREAD: usize = 4;
/// Tasks wanted for each thread when tiles are split into chunks; bounds the memory for unmerged chunks.
const TASKS_PER_THREAD: usize = 8;

/// What attention computes, apart from the shape of the cache.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AttentionSpec<'a> {
    /// Query heads, a multiple of the KV heads; head `h` reads KV head `h / (heads / kv_heads)`.
    pub heads: usize,
    /// Multiplies scores; mostly `1 / sqrt(key_dim)`.
    pub scale: f32,
    /// Scores become `cap * tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// A row sees its last `window` positions only, its own included.
    pub window: Option<u32>,
    /// A score for each head that takes part in the softmax and has no value.
    pub sinks: Option<&'a [f32]>,
}

impl AttentionSpec<'_> {
    /// Plain causal attention.
    #[must_use]
    pub fn new(heads: usize, scale: f32) -> Self {
        Self { heads, scale, softcap: None, window: None, sinks: None }
    }
}

/// What one row sees.
#[derive(Debug, Clone, Copy)]
pub struct RowView<'a> {
    /// Pages of the sequence in order of position; those before the window may be anything. Rows of one sequence that
    /// follow each other and share this very slice are computed together.
    pub pages: &'a [u32],
    /// Visible positions: the row's own position + 1.
    pub len: u32,
    /// Which of them it sees, a bit each, a word for each page; all of them where there is none.
    pub mask: Option<&'a [u64]>,
}

impl RowView<'_> {
    /// The visible positions.
    fn visible(&self, window: Option<u32>) -> std::ops::Range<usize> {
        let start = window.map_or(0, |window| self.len.saturating_sub(window));
        start as usize..self.len as usize
    }

    /// The positions of a page that it sees.
    fn seen(&self, page: usize) -> u64 {
        self.mask.map_or(u64::MAX, |mask| mask[page])
    }
}

/// Memory that attention reuses from call to call.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    tiles: Vec<Tile>,
    tasks: Vec<(usize, usize)>,
    left: Vec<AtomicUsize>,
    /// One workspace a thread.
    work: Aligned,
    /// Merged states of the tiles, and of the chunks not yet merged.
    totals: Aligned,
    parts: Aligned,
}

impl Cpu {
    /// `out[row][head][value_dim] = sum_p softmax_p(scale * q[row][head] . key[p]) * value[p]` over the positions the row
    /// sees; `q` is `[rows.len()][spec.heads][key_dim]`.
    ///
    /// # Errors
    /// [`KernelError::Length`] for buffers that do not fit, [`KernelError::Shape`] when the heads are no multiple of
    /// the KV heads or a row sees nothing, [`KernelError::OutOfRange`] for a visible page outside the list, the mask or the
    /// cache.
    pub fn attention(
        &self,
        q: &[f32],
        spec: &AttentionSpec<'_>,
        cache: &KvLayer<'_>,
        rows: &[RowView<'_>],
        out: &mut [f32],
        scratch: &mut AttentionScratch,
    ) -> Result<(), KernelError> {
        check(q, spec, cache, rows, out)?;
        some_seen(spec, rows)?;
        self.attend(q, spec, cache, rows, (out, None), scratch);
        Ok(())
    }

    /// As [`attention`](Self::attention), of a part of what rows see: also writes the logarithm of each head's sum of `e^score`
    /// to `sums` (`[rows][heads]`), for [`blend`](Self::blend). Rows may see nothing; they get zeros and minus infinity.
    ///
    /// # Errors
    /// Those of [`attention`](Self::attention), but not for rows that see nothing; [`KernelError::Shape`] for sinks.
    pub fn attention_part(
        &self,
        q: &[f32],
        spec: &AttentionSpec<'_>,
        cache: &KvLayer<'_>,
        rows: &[RowView<'_>],
        (out, sums): (&mut [f32], &mut [f32]),
        scratch: &mut AttentionScratch,
    ) -> Result<(), KernelError> {
        check(q, spec, cache, rows, out)?;
        KernelError::length("sums of attention", rows.len() * spec.heads, sums.len())?;
        if let Some(sinks) = spec.sinks {
            let rule = "0 in a part: they belong to all parts together";
            return Err(KernelError::Shape { what: "attention sinks", value: sinks.len(), rule });
        }
        self.attend(q, spec, cache, rows, (out, Some(sums)), scratch);
        Ok(())
    }

    fn attend(
        &self,
        q: &[f32],
        spec: &AttentionSpec<'_>,
        cache: &KvLayer<'_>,
        rows: &[RowView<'_>],
        (out, sums): (&mut [f32], Option<&mut [f32]>),
        scratch: &mut AttentionScratch,
    ) {
        let group = spec.heads / cache.shape.heads();
        tile(rows, spec, group, cache.shape.heads(), &mut scratch.tiles);
        let queries = scratch.tiles.iter().map(|tile| tile.rows * group).max().unwrap_or(0);
        let padded = queries.next_multiple_of(chunk::PADDING);
        let threads = self.pool.threads();
        let job = Job {
            spec,
            cache,
            rows,
            group,
            q,
            out: Shared::new(out),
            sums: sums.map(Shared::new),
            state: padded * state::stride(cache.shape.value_dim()),
            work: chunk::workspace(padded, cache.shape),
        };
        if scratch.tiles.len() >= TILES_PER_THREAD * threads || threads == 1 {
            self.whole_tiles(&job, scratch);
        } else {
            self.split_tiles(&job, scratch);
        }
    }

    /// Each task computes one tile from end to end.
    fn whole_tiles(&self, job: &Job<'_>, scratch: &mut AttentionScratch) {
        let each = job.work + 2 * job.state;
        let work = Shared::new(scratch.work.floats(self.pool.threads() * each));
        let tiles = &scratch.tiles;
        self.pool.run_on(tiles.len(), &|index, thread| {
            // SAFETY: `work` holds `each` values a thread, and no two running tasks share a thread number.
            let memory = unsafe { work.part(thread * each..(thread + 1) * each) };
            let (work, states) = memory.split_at_mut(job.work);
            let (total, part) = states.split_at_mut(job.state);
            dispatch(self.isa, WholeTile { job, tile: &tiles[index], work, total, part });
        });
    }

    /// Tasks are chunks of tiles, in waves that bound the memory of unmerged chunks.
    fn split_tiles(&self, job: &Job<'_>, scratch: &mut AttentionScratch) {
        let AttentionScratch { tiles, tasks, left, work, totals, parts } = scratch;
        let wave = (TASKS_PER_THREAD * self.pool.threads()).div_ceil(tiles.len().max(1)).max(1);
        left.resize_with(tiles.len().max(left.len()), AtomicUsize::default);
        let most = tiles.iter().map(|tile| tile.chunks().len()).max().unwrap_or(0);
        let work = Shared::new(work.floats(self.pool.threads() * job.work));
        let totals = Shared::new(totals.floats(tiles.len() * job.state));
        let parts = Shared::new(parts.floats(tiles.len() * wave * job.state));
        for first in (0..most).step_by(wave) {
            tasks.clear();
            for nth in first..most.min(first + wave) {
                tasks.extend((0..tiles.len()).filter(|&t| nth < tiles[t].chunks().len()).map(|t| (t, nth)));
            }
            for (tile, left) in tiles.iter().zip(left.iter_mut()) {
                *left.get_mut() = tile.chunks().len().saturating_sub(first).min(wave);
            }
            self.pool.run_on(tasks.len(), &|index, thread| {
                let (t, nth) = tasks[index];
                let tile = &tiles[t];
                let part = t * wave + nth - first;
                // SAFETY: `work` holds `job.work` values a thread, and no two running tasks share a thread number; each task
                // has its own part, sized above.
                let (work, part) = unsafe {
                    (
                        work.part(thread * job.work..(thread + 1) * job.work),
                        parts.part(part * job.state..(part + 1) * job.state),
                    )
                };
                dispatch(self.isa, OneChunk { job, tile, chunk: tile.chunks().start + nth, work, part });
                if left[t].fetch_sub(1, Ordering::AcqRel) != 1 {
                    return;
                }
                let last = first + wave >= tile.chunks().len();
                let count = (tile.chunks().len() - first).min(wave);
                // SAFETY: all tasks of this tile in this wave have counted down (acquired above), so their parts and
                // the tile's total belong to this task alone.
                let (total, parts) = unsafe {
                    (
                        totals.part(t * job.state..(t + 1) * job.state),
                        parts.part(t * wave * job.state..(t * wave + count) * job.state),
                    )
                };
                dispatch(self.isa, Merge { job, tile, total, parts, fresh: first == 0, last });
            });
        }
    }
}

/// One call, as its tasks see it.
struct Job<'a> {
    spec: &'a AttentionSpec<'a>,
    cache: &'a KvLayer<'a>,
    rows: &'a [RowView<'a>],
    /// Query heads of a KV head.
    group: usize,
    q: &'a [f32],
    out: Shared<'a, f32>,
    /// Of every row and head.
    sums: Option<Shared<'a, f32>>,
    /// Values of a tile's state and of a thread's workspace.
    state: usize,
    work: usize,
}

struct WholeTile<'a> {
    job: &'a Job<'a>,
    tile: &'a Tile,
    work: &'a mut [f32],
    total: &'a mut [f32],
    part: &'a mut [f32],
}

impl Kernel for WholeTile<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let Self { job, tile, work, total, part } = self;
        // SAFETY: `check` and `Job` size everything; the instruction set is the caller's promise.
        unsafe {
            let dim = job.cache.shape.value_dim();
            chunk::pack::<V>(job, tile, work);
            state::clear(total, dim);
            for index in tile.chunks() {
                chunk::run::<V>(job, tile, index, work, part);
                state::merge::<V>(total, part, dim, tile.rows * job.group);
            }
            state::finish::<V>(job, tile, total);
        }
    }
}

struct OneChunk<'a> {
    job: &'a Job<'a>,
    tile: &'a Tile,
    chunk: usize,
    work: &'a mut [f32],
    part: &'a mut [f32],
}

impl Kernel for OneChunk<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        // SAFETY: as in `WholeTile`.
        unsafe {
            chunk::pack::<V>(self.job, self.tile, self.work);
            chunk::run::<V>(self.job, self.tile, self.chunk, self.work, self.part);
        }
    }
}

struct Merge<'a> {
    job: &'a Job<'a>,
    tile: &'a Tile,
    total: &'a mut [f32],
    parts: &'a [f32],
    fresh: bool,
    last: bool,
}

impl Kernel for Merge<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let dim = self.job.cache.shape.value_dim();
        if self.fresh {
            state::clear(self.total, dim);
        }
        // SAFETY: as in `WholeTile`.
        unsafe {
            for part in self.parts.chunks_exact(self.job.state) {
                state::merge::<V>(self.total, part, dim, self.tile.rows * self.job.group);
            }
            if self.last {
                state::finish::<V>(self.job, self.tile, self.total);
            }
        }
    }
}

const _: () = assert!(PAGE == 4 * LANES, "a page's weights are added as four vectors");

#[cfg(test)]
mod tests;
