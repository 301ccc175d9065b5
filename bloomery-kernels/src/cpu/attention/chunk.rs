//! One tile over one chunk of pages.

use super::convert::{convert_keys, convert_values};
use super::register::{all_dots, all_sums};
use super::softmax::weights;
use super::source::{Eight, Full, Half, Source};
use super::{CHUNK, Job, state};
use crate::cpu::kv::{KvShape, KvType, PAGE};
use crate::cpu::lanes::{LANES, Lanes};

/// Query vectors are padded to a multiple of this, the largest register tile.
pub(super) const PADDING: usize = 8;
/// A tile with more query vectors converts a page to f32 before it uses it. (4 KV heads at depth 2048, f16, AVX-512:
/// 32 query vectors take 1.20 ms unconverted and 1.59 ms converted, 64 are on a par.)
const CONVERT_ABOVE: usize = 32;

/// Rows `first..first + rows` of the call, which share a page list, for the query heads of KV head `head`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile {
    pub(super) first: usize,
    pub(super) rows: usize,
    pub(super) head: usize,
    /// Positions that some row sees.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Scores, then weights, of a register tile of queries: `[query][position]`, aligned for whole-vector stores.
#[repr(C, align(64))]
struct Scores([f32; PADDING * PAGE]);

/// Values of a thread's workspace: packed queries, then a page's keys and values in f32.
pub(super) fn workspace(queries: usize, shape: KvShape) -> usize {
    queries * shape.key_dim() + PAGE * (shape.key_dim() + shape.value_dim())
}

/// Packs the tile's queries as `[query / TILE][key_dim][TILE]`, zero where there is none.
///
/// # Safety
/// `work` has [`workspace`] values for the tile.
#[inline(always)]
pub(super) unsafe fn pack<V: Lanes>(job: &Job<'_>, tile: &Tile, work: &mut [f32]) {
    let (dim, queries) = (job.cache.shape.key_dim(), tile.rows * job.group);
    for (sub, packed) in work.chunks_exact_mut(V::TILE * dim).take(queries.div_ceil(V::TILE)).enumerate() {
        for j in 0..V::TILE {
            let index = sub * V::TILE + j;
            if index >= queries {
                packed.iter_mut().skip(j).step_by(V::TILE).for_each(|value| *value = 0.0);
                continue;
            }
            let row = (tile.first + index / job.group) * job.spec.heads + tile.head * job.group;
            let query = &job.q[(row + index % job.group) * dim..][..dim];
            packed.iter_mut().skip(j).step_by(V::TILE).zip(query).for_each(|(to, from)| *to = *from);
        }
    }
}

/// Computes the state `part` of the tile over chunk `index` from packed queries.
///
/// # Safety
/// `tile` belongs to `job`, whose contract was checked; `work` and `part` have the sizes in `job`; the machine has
/// the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn run<V: Lanes>(
    job: &Job<'_>,
    tile: &Tile,
    index: usize,
    work: &mut [f32],
    part: &mut [f32],
) {
    let shape = job.cache.shape;
    let many = tile.rows * job.group > CONVERT_ABOVE && shape.key_type() != KvType::F32;
    let convert = many || shape.key_type() != shape.value_type();
    // SAFETY (all): this function's own contract.
    match shape.key_type() {
        // SAFETY: as above.
        _ if convert => unsafe { pages::<V, Full>(job, tile, index, true, work, part) },
        // SAFETY: as above.
        KvType::F32 => unsafe { pages::<V, Full>(job, tile, index, false, work, part) },
        // SAFETY: as above.
        KvType::F16 => unsafe { pages::<V, Half>(job, tile, index, false, work, part) },
        // SAFETY: as above.
        KvType::Q8_0 => unsafe { pages::<V, Eight>(job, tile, index, false, work, part) },
    }
}

/// [`run`] with the elements read as `S`, which is f32 when pages are converted first.
#[inline(always)]
unsafe fn pages<V: Lanes, S: Source>(
    job: &Job<'_>,
    tile: &Tile,
    index: usize,
    convert: bool,
    work: &mut [f32],
    part: &mut [f32],
) {
    let shape = job.cache.shape;
    let (key_dim, value_dim) = (shape.key_dim(), shape.value_dim());
    let queries = tile.rows * job.group;
    state::clear(part, value_dim);
    let (packed, rest) = work.split_at_mut(queries.next_multiple_of(PADDING) * key_dim);
    let (flat_keys, flat_values) = rest.split_at_mut(PAGE * key_dim);
    let first = (tile.start / PAGE).max(index * CHUNK);
    let last = tile.end.div_ceil(PAGE).min((index + 1) * CHUNK);
    let part_of = |page: usize| {
        let id = job.rows[tile.first].pages[page] as usize * shape.heads() + tile.head;
        let keys = job.cache.keys[id * shape.key_head_bytes()..].as_ptr();
        (keys, job.cache.values[id * shape.value_head_bytes()..].as_ptr())
    };
    for page in first..last {
        let (mut keys, mut values) = part_of(page);
        let used = (tile.end - page * PAGE).min(PAGE);
        if convert {
            // SAFETY: the buffers hold a page; the instruction set is this function's own contract.
            unsafe {
                convert_keys::<V>(shape.key_type(), keys, key_dim, used.div_ceil(LANES), flat_keys);
                convert_values::<V>(shape.value_type(), values, value_dim, used, flat_values);
            }
            (keys, values) = (flat_keys.as_ptr().cast(), flat_values.as_ptr().cast());
        }
        // The next page of the chunk, to ask for while this one is used: decode reads 9 to 12 GB/s a core so, 5 without.
        let next = if page + 1 < last { part_of(page + 1) } else { (keys, values) };
        let subs = packed.chunks_exact(V::TILE * key_dim).take(queries.div_ceil(V::TILE));
        let states = part.chunks_exact_mut(V::TILE * state::stride(value_dim));
        for (sub, (packed, state)) in subs.zip(states).enumerate() {
            let mut seen = [(0, 0, 0); PADDING];
            let (mut low, mut high) = (PAGE, 0);
            for (j, seen) in seen.iter_mut().enumerate().take(V::TILE.min(queries - sub * V::TILE)) {
                let row = &job.rows[tile.first + (sub * V::TILE + j) / job.group];
                let visible = row.visible(job.spec.window);
                let from = visible.start.saturating_sub(page * PAGE).min(PAGE);
                let to = visible.end.saturating_sub(page * PAGE).min(PAGE);
                if from >= to {
                    continue;
                }
                // The positions `from..to` of the page, and those of them that the row sees.
                let range = u64::MAX << from & u64::MAX >> (PAGE - to);
                let bits = row.seen(page);
                if bits & range != 0 {
                    *seen = (from, to, bits);
                    (low, high) = (low.min(from), high.max(to));
                }
            }
            if low >= high {
                continue;
            }
            let mut scores = Scores([0.0; PADDING * PAGE]);
            let mut fade = [1.0_f32; PADDING];
            // SAFETY: queries, states and pages have the sizes of the shape, positions are below PAGE; the
            // instruction set is this function's own contract.
            unsafe {
                all_dots::<V, S>(
                    packed.as_ptr(),
                    (keys, next.0),
                    key_dim,
                    low / LANES,
                    high.div_ceil(LANES),
                    &mut scores.0,
                );
                for j in 0..V::TILE {
                    let state = &mut state[j * state::stride(value_dim) + value_dim..][..2 * LANES];
                    let row = &mut scores.0[j * PAGE..(j + 1) * PAGE];
                    fade[j] = weights::<V>(job, row, seen[j], state);
                }
                all_sums::<V, S>(&scores.0, &fade, (values, next.1), value_dim, low, high, state);
            }
        }
    }
}
