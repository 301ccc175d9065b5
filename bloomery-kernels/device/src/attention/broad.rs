//! Many rows of the widest heads: 32 queries of neighbouring rows of a sequence, for one KV head, through all positions that they see.
//!
//! A block takes 128 positions at a time. Its warps share the positions of the keys and then the dimensions of the values, both straight
//! from global memory, so that each is loaded once for all queries. Where rows see chosen positions, queries are of one row. Queries are pairs of halves, 22 bits; weights are halves, 11 bits.

use super::super::abi::attention::{BROAD_CHUNKS, BROAD_QUERIES, BROAD_WARPS, CHUNK, PAGE};
use super::super::simt::{
    await_predecessors, barrier, block, divide, fma, lane, ld_global_f32x4, ld_global_u32, ld_global_u32x2,
    ld_shared_f32, ld_shared_u32x2, ld_shared_u32x4, mma, release_successor, shared_base, shfl, shfl_xor_f32,
    st_global_f32, st_global_f32x4, st_shared_f32, st_shared_u32x2, st_shared_u32x4, thread, uniform_warp,
    warp_barrier,
};
use super::broad_weights::{halves, scaled};
use super::chosen::fours as fours_of;
use super::items::Item;
use super::kind::Kind;
use super::operands::{SIXTEENS, halves_of, mask, scale};
use super::{ALL, AttendArgs, BLOCKS, ENDS, among, ends, exp2, factor, head_bytes, log_sum, page};

/// Sixteens of queries.
const TILES: usize = BROAD_QUERIES as usize / 16;
/// Chunks of 32 dimensions of keys that are loaded together, a sixth of all.
pub(super) const TOGETHER: usize = BROAD_CHUNKS as usize / 6;
/// Sixteens of dimensions of a warp's values.
pub(super) const EIGHTS: usize = 4;
/// Sixteens of positions whose values are loaded together.
pub(super) const PAIR: usize = 2;
/// In place of the number of a query that is not there.
const MISSING: u32 = u32::MAX;

/// Offsets in shared memory.
struct Layout {
    /// Operands: `[16 dimensions][sixteen of queries][upper halves, what they leave]`.
    queries: u32,
    /// Operands: `[sixteen of positions][sixteen of queries]`. Scaled kinds: the weights in f32.
    weights: u32,
    /// `[query][warp]` f32.
    most: u32,
    sums: u32,
    /// Number and length of every query.
    lines: u32,
}

impl Layout {
    #[inline(always)]
    fn new<K: Kind>() -> Self {
        let queries = shared_base();
        let weights = queries + 2048 * TILES as u32 * BROAD_CHUNKS;
        let most = weights + operand::<K>() * (SIXTEENS * TILES) as u32;
        let sums = most + 4 * BROAD_WARPS * BROAD_QUERIES;
        Self { queries, weights, most, sums, lines: sums + 4 * BROAD_WARPS * BROAD_QUERIES }
    }
}

/// Bytes of the weights of 16 queries and 16 positions.
#[inline(always)]
const fn operand<K: Kind>() -> u32 {
    if K::SCALED { 1024 } else { 512 }
}

/// Scores of a lane: `[sixteen of queries][two positions][query g, g, g + 8, g + 8]`.
type Scores = [[[f32; 4]; 2]; TILES];
/// Sums of a lane: `[sixteen of queries][16 dimensions][two dimensions][query g, g, g + 8, g + 8]`.
type Out = [[[[f32; 4]; 2]; EIGHTS]; TILES];

/// See the module. `SIGHT`: which positions rows see.
///
/// # Safety
/// The contract of `Attend::launch`.
#[inline(always)]
pub(crate) unsafe fn prefill<K: Kind, const SIGHT: u32>(args: AttendArgs) {
    await_predecessors();
    release_successor();
    let (cache, group, warp) = (&args.cache, args.group, uniform_warp());
    let (g, t) = (lane() / 4, lane() % 4);
    let layout = Layout::new::<K>();
    let (rest, sub) = divide(block(), args.stages);
    let (tile, kv_head) = divide(rest, cache.kv_heads);
    let [first, count] =
        if SIGHT != ALL { [tile, 1] } else { ld_global_u32x2(args.scratch + 8 * u64::from(tile)) };
    // Whatever the list says, only rows of the launch.
    let first = first.min(cache.rows - 1);
    let queries = count.max(1).min(cache.rows - first) * group;
    let sequence = ld_global_u32(cache.sequences + 4 * u64::from(first));
    let len = |m: u32| {
        let row = first + divide(m.min(queries - 1), group).0;
        let position = ld_global_u32(cache.positions + 4 * u64::from(row)).min(cache.stride * PAGE - 1);
        among::<SIGHT>(&args, position + 1)
    };
    let offset = BROAD_QUERIES * sub;
    if thread() < BROAD_QUERIES {
        let m = offset + thread();
        let (row, head) = divide(m.min(queries - 1), group);
        let index = ((first + row) * cache.kv_heads + kv_head) * group + head;
        let index = if m < queries { index } else { MISSING };
        st_shared_u32x2(layout.lines + 8 * thread(), [index, len(m)]);
    }
    let end = len(offset + BROAD_QUERIES - 1);
    let mut start = len(offset).saturating_sub(args.window) / PAGE * PAGE;
    let row = if SIGHT != ALL { first } else { 0 };
    let item = Item { row, sequence, fresh: 0, kv_head, tile, piece: 0, pieces: 1, start, end, low: 0 };
    barrier();
    stage_queries(&args, &layout, warp);
    barrier();

    let mut most = [[f32::NEG_INFINITY; 2]; TILES];
    let mut sum = [[0.0_f32; 2]; TILES];
    let mut out: Out = [[[[0.0; 4]; 2]; EIGHTS]; TILES];
    // Of this chunk and the next one.
    let mut fours = [start, start + CHUNK].map(|start| fours_of::<SIGHT>(&args, &item, start));
    while start < end {
        let mut scores: Scores = [[[0.0; 4]; 2]; TILES];
        // In a form that the compiler does not know: it would keep the places of all dimensions in registers.
        let (key_dim, dim) = (shfl(cache.key_dim, 0), shfl(cache.value_dim, 0));
        let keys = |sixth: u32| match SIGHT {
            BLOCKS => Keys::<K>::load_chosen(&args, &item, key_dim, (start, fours[0][0]), warp, sixth),
            ENDS => Keys::<K>::load_ends(&args, &item, key_dim, (start, fours[0]), warp, sixth),
            _ => Keys::<K>::load(&args, &item, key_dim, start, warp, sixth),
        };
        // Barriers keep the compiler from loading more than there are registers for.
        let (mut now, mut next) = (keys(0), keys(1));
        now.add(&mut scores, &layout, 0);
        warp_barrier();
        now = keys(2);
        next.add(&mut scores, &layout, 1);
        warp_barrier();
        next = keys(3);
        now.add(&mut scores, &layout, 2);
        warp_barrier();
        now = keys(4);
        next.add(&mut scores, &layout, 3);
        warp_barrier();
        next = keys(5);
        now.add(&mut scores, &layout, 4);
        next.add(&mut scores, &layout, 5);

        let mut m = 0;
        while m < TILES {
            let mut i = 0;
            while i < 2 {
                let query = 16 * m as u32 + 8 * i as u32 + g;
                let [_, len] = ld_shared_u32x2(layout.lines + 8 * query);
                let low = len.saturating_sub(args.window);
                let mut larger = f32::NEG_INFINITY;
                let mut j = 0;
                while j < 4 {
                    let position = start + 16 * warp + 4 * t + j as u32;
                    let score = &mut scores[m][j / 2][2 * i + j % 2];
                    if position >= len || position < low {
                        *score = f32::NEG_INFINITY;
                    }
                    larger = larger.max(*score);
                    j += 1;
                }
                larger = larger.max(shfl_xor_f32(larger, 1));
                larger = larger.max(shfl_xor_f32(larger, 2));
                if t == 0 {
                    st_shared_f32(layout.most + 4 * (BROAD_WARPS * query + warp), larger);
                }
                i += 1;
            }
            m += 1;
        }
        barrier();
        // Behind the barrier: before it, the keys still have their registers.
        let load = |pair: u32| match SIGHT {
            BLOCKS => Values::<K>::load_chosen(&args, &item, dim, (start, fours[0][0]), warp, pair),
            ENDS => Values::<K>::load_ends(&args, &item, dim, (start, fours[0]), warp, pair),
            _ => Values::<K>::load(&args, &item, dim, start + 16 * PAIR as u32 * pair, warp),
        };
        let (mut now, mut next) = (load(0), load(1));
        m = 0;
        while m < TILES {
            let mut i = 0;
            while i < 2 {
                let query = 16 * m as u32 + 8 * i as u32 + g;
                let larger = most[m][i].max(largest(layout.most + 4 * BROAD_WARPS * query));
                // Of positions before a row's window, none may have a score yet.
                let base = if larger == f32::NEG_INFINITY { 0.0 } else { larger };
                let kept = exp2((most[m][i] - base) * factor(&args));
                most[m][i] = larger;
                let mut added = 0.0;
                let mut j = 0;
                while j < 4 {
                    let score = &mut scores[m][j / 2][2 * i + j % 2];
                    *score = exp2((*score - base) * factor(&args));
                    added += *score;
                    j += 1;
                }
                sum[m][i] = fma(sum[m][i], kept, added);
                j = 0;
                while j < 4 * EIGHTS {
                    out[m][j / 4][j % 4 / 2][2 * i + j % 2] *= kept;
                    j += 1;
                }
                i += 1;
            }
            let at = layout.weights + operand::<K>() * (TILES as u32 * warp + m as u32) + 16 * lane();
            let [x, y] = scores[m];
            if K::SCALED {
                st_shared_u32x4(at, x.map(f32::to_bits));
                st_shared_u32x4(at + 512, y.map(f32::to_bits));
            } else {
                st_shared_u32x4(at, halves(x, y));
            }
            m += 1;
        }
        barrier();
        let left = end as i32 - start as i32;
        now.add::<SIGHT>(&mut out, &layout, left, 0);
        warp_barrier();
        now = load(2);
        next.add::<SIGHT>(&mut out, &layout, left, 1);
        warp_barrier();
        next = load(3);
        now.add::<SIGHT>(&mut out, &layout, left, 2);
        next.add::<SIGHT>(&mut out, &layout, left, 3);
        start += CHUNK;
        fours = [fours[1], fours_of::<SIGHT>(&args, &item, start + CHUNK)];
    }
    deliver::<K, SIGHT>(&args, &layout, warp, (&most, &sum), &out);
}

/// Sums over the block, and a warp's dimensions of all queries.
#[inline(always)]
unsafe fn deliver<K: Kind, const SIGHT: u32>(
    args: &AttendArgs,
    layout: &Layout,
    warp: u32,
    (most, sum): (&[[f32; 2]; TILES], &[[f32; 2]; TILES]),
    out: &Out,
) {
    let (g, t, dim) = (lane() / 4, lane() % 4, args.cache.value_dim);
    let mut m = 0;
    while m < TILES {
        let mut i = 0;
        while i < 2 {
            let mut mine = sum[m][i];
            mine += shfl_xor_f32(mine, 1);
            mine += shfl_xor_f32(mine, 2);
            let query = 16 * m as u32 + 8 * i as u32 + g;
            if t == 0 {
                st_shared_f32(layout.sums + 4 * (BROAD_WARPS * query + warp), mine);
            }
            i += 1;
        }
        m += 1;
    }
    barrier();
    m = 0;
    while m < TILES {
        let mut i = 0;
        while i < 2 {
            let query = 16 * m as u32 + 8 * i as u32 + g;
            let (mut total, mut w) = (0.0, 0);
            while w < BROAD_WARPS {
                total += ld_shared_f32(layout.sums + 4 * (BROAD_WARPS * query + w));
                w += 1;
            }
            // Scaled kinds have their weights 256 times as large: small ones would be no halves.
            let mut inverse = if K::SCALED { 1.0 / 256.0 } else { 1.0 } / total;
            if SIGHT == ENDS && total == 0.0 {
                inverse = 0.0;
            }
            let [index, _] = ld_shared_u32x2(layout.lines + 8 * query);
            if args.sums != 0 && warp == 0 && t == 0 && index != MISSING {
                st_global_f32(args.sums + 4 * u64::from(index), log_sum(args, most[m][i], total));
            }
            let place = args.out + 4 * u64::from(index) * u64::from(dim);
            let mut e = 0;
            while e < EIGHTS {
                let mut d = 16 * (EIGHTS as u32 * warp + e as u32) + 4 * t;
                let of = |e: usize, side: usize| {
                    let [x, y] = out[m][e];
                    [x[2 * i + side], y[2 * i + side]]
                };
                let mut pairs = [of(e, 0), of(e, 1)];
                if SIGHT == ENDS {
                    // A lane's pairs of both sixteens of 32 dimensions are neighbours.
                    let first = e / 2 * 2;
                    d = 16 * (EIGHTS as u32 * warp + first as u32) + 8 * t + 4 * (e % 2) as u32;
                    pairs = [of(first, e % 2), of(first + 1, e % 2)];
                }
                if index != MISSING && d < dim {
                    let [[a, b], [c, d_]] = pairs;
                    let four = [a, b, c, d_];
                    st_global_f32x4(place + 4 * u64::from(d), four.map(|x| x * inverse));
                }
                e += 1;
            }
            i += 1;
        }
        m += 1;
    }
}

/// The queries of the block as operands, by all warps.
#[inline(always)]
unsafe fn stage_queries(args: &AttendArgs, layout: &Layout, warp: u32) {
    let dim = args.cache.key_dim;
    let mut at = warp;
    while at < 2 * BROAD_CHUNKS * TILES as u32 {
        let (step, m) = (at / TILES as u32, at % TILES as u32);
        let d = 32 * (step / 2) + 8 * (lane() % 4) + 4 * (step % 2);
        let mut parts = [[[0_u32; 2]; 2]; 2];
        let mut i = 0;
        while i < 2 {
            let [index, _] = ld_shared_u32x2(layout.lines + 8 * (16 * m + 8 * i as u32 + lane() / 4));
            let mut four = [0.0; 4];
            if index != MISSING && d < dim {
                four = ld_global_f32x4(args.q + 4 * (u64::from(index) * u64::from(dim) + u64::from(d)));
            }
            parts[i] = [halves_of(four[0], four[1]), halves_of(four[2], four[3])];
            i += 1;
        }
        let [x, y] = parts;
        let place = layout.queries + 1024 * at + 16 * lane();
        st_shared_u32x4(place, [x[0][0], y[0][0], x[1][0], y[1][0]]);
        st_shared_u32x4(place + 512, [x[0][1], y[0][1], x[1][1], y[1][1]]);
        at += BROAD_WARPS;
    }
}

/// A sixth of the dimensions of the keys of a warp's 16 positions.
pub(super) struct Keys<K: Kind> {
    pub(super) values: [[K::Eight; 2]; TOGETHER],
    pub(super) scales: [[u32; 2]; TOGETHER],
}

impl<K: Kind> Keys<K> {
    /// Of the chunk at `start`; what is not there is zero or nonsense.
    #[inline(always)]
    unsafe fn load(args: &AttendArgs, item: &Item, dim: u32, start: u32, warp: u32, sixth: u32) -> Self {
        let (cache, first) = (&args.cache, start + 16 * warp);
        let (g, t) = (lane() / 4, lane() % 4);
        let mut keys = Self { values: [[K::ZERO; 2]; TOGETHER], scales: [[0; 2]; TOGETHER] };
        if first < item.end {
            let part =
                page(cache, item.sequence, first) * u64::from(cache.kv_heads) + u64::from(item.kv_head);
            let base = cache.keys + part * u64::from(head_bytes::<K>(dim));
            let mut c = 0;
            while c < TOGETHER {
                let chunk = TOGETHER as u32 * sixth + c as u32;
                // Beyond the key any of its values will do: queries are zero there.
                let d = (32 * chunk + 8 * t).min(dim - 8);
                let mut i = 0;
                while i < 2 {
                    // A lane's two columns of the scores are neighbours, and both products' columns are four neighbours.
                    let offset = first % PAGE + 4 * (g / 2) + 2 * i as u32 + g % 2;
                    keys.values[c][i] = K::load(base + u64::from(K::BYTES * (offset * dim + d)));
                    i += 1;
                }
                if K::SCALED {
                    let group = chunk.min(dim / 32 - 1);
                    let at = PAGE * dim + 2 * (group * PAGE + first % PAGE + 4 * t);
                    keys.scales[c] = ld_global_u32x2(base + u64::from(at));
                }
                c += 1;
            }
        }
        keys
    }

    /// Adds the products with all queries.
    #[inline(always)]
    unsafe fn add(&self, scores: &mut Scores, layout: &Layout, sixth: u32) {
        let mut c = 0;
        while c < TOGETHER {
            let h = self.values[c].map(K::halves);
            let mut m = 0;
            while m < TILES {
                let step = 2 * (TOGETHER as u32 * sixth + c as u32);
                let at = layout.queries + 1024 * (TILES as u32 * step + m as u32) + 16 * lane();
                let odd = at + 1024 * TILES as u32;
                let query = [
                    ld_shared_u32x4(at),
                    ld_shared_u32x4(at + 512),
                    ld_shared_u32x4(odd),
                    ld_shared_u32x4(odd + 512),
                ];
                let mut i = 0;
                while i < 2 {
                    let (a, b) = ([h[i][0], h[i][1]], [h[i][2], h[i][3]]);
                    if K::SCALED {
                        let sum = mma([0.0; 4], query, [a, a, b, b]);
                        let mut j = 0;
                        while j < 4 {
                            let factor = scale(self.scales[c], 2 * i + j % 2);
                            scores[m][i][j] = fma(sum[j], factor, scores[m][i][j]);
                            j += 1;
                        }
                    } else {
                        scores[m][i] = mma(scores[m][i], query, [a, a, b, b]);
                    }
                    i += 1;
                }
                m += 1;
            }
            c += 1;
        }
    }
}

/// Values of a pair of sixteens of positions and of a warp's dimensions.
pub(super) struct Values<K: Kind> {
    pub(super) values: [[K::Eight; PAIR]; EIGHTS],
    /// Of 32 dimensions each.
    pub(super) scales: [[[u32; 2]; PAIR]; EIGHTS / 2],
}

impl<K: Kind> Values<K> {
    /// From `start` on, all of one page; what is not there is zero or nonsense.
    #[inline(always)]
    unsafe fn load(args: &AttendArgs, item: &Item, dim: u32, start: u32, warp: u32) -> Self {
        let cache = &args.cache;
        let (g, t) = (lane() / 4, lane() % 4);
        let mut values = Self { values: [[K::ZERO; PAIR]; EIGHTS], scales: [[[0; 2]; PAIR]; EIGHTS / 2] };
        let part = page(cache, item.sequence, start) * u64::from(cache.kv_heads) + u64::from(item.kv_head);
        let base = cache.values + part * u64::from(head_bytes::<K>(dim));
        let mut e = 0;
        while e < EIGHTS {
            // One of the values' whatever their width.
            let d = (16 * (EIGHTS as u32 * warp + e as u32)).min(dim - 16);
            let mut s = 0;
            while s < PAIR {
                if start + 16 * (s as u32) < item.end {
                    let quad = start % PAGE / 4 + 4 * s as u32 + t;
                    values.values[e][s] = K::load(base + u64::from(K::BYTES * 4 * (quad * dim + d + 2 * g)));
                    if K::SCALED && e % 2 == 0 {
                        let at = PAGE * dim + 2 * (d / 32 * PAGE + start % PAGE + 16 * s as u32 + 4 * t);
                        values.scales[e / 2][s] = ld_global_u32x2(base + u64::from(at));
                    }
                }
                s += 1;
            }
            e += 1;
        }
        values
    }

    /// Adds them, weighted, for all queries; `left` positions exist from the chunk's first on.
    #[inline(always)]
    unsafe fn add<const SIGHT: u32>(&self, out: &mut Out, layout: &Layout, left: i32, pair: u32) {
        let mut s = 0;
        while s < PAIR {
            let sixteen = PAIR as u32 * pair + s as u32;
            let left = left - (16 * sixteen + 4 * (lane() % 4)) as i32;
            // Without what lies beyond the end: nobody wrote it, it may be infinite.
            let (upper, lower) = (mask(left), mask(left - 2));
            let mut m = 0;
            while m < TILES {
                let at = layout.weights + operand::<K>() * (TILES as u32 * sixteen + m as u32) + 16 * lane();
                let mut weights = ld_shared_u32x4(at);
                let mut both = [weights; 2];
                if K::SCALED {
                    both[1] = ld_shared_u32x4(at + 512);
                }
                let mut e = 0;
                while e < EIGHTS {
                    if K::SCALED && e % 2 == 0 {
                        weights = scaled(both, self.scales[e / 2][s], left);
                    }
                    let h = if SIGHT == ENDS {
                        ends::halves::<K>([self.values[e / 2 * 2][s], self.values[e / 2 * 2 + 1][s]])[e % 2]
                    } else {
                        K::halves(self.values[e][s])
                    };
                    let sums = &mut out[m][e];
                    sums[0] = mma(sums[0], [weights], [[h[0] & upper, h[1] & lower]]);
                    sums[1] = mma(sums[1], [weights], [[h[2] & upper, h[3] & lower]]);
                    e += 1;
                }
                m += 1;
            }
            s += 1;
        }
    }
}

/// The largest of what the warps have written of a query.
#[inline(always)]
unsafe fn largest(at: u32) -> f32 {
    let (a, b) = (ld_shared_u32x4(at).map(f32::from_bits), ld_shared_u32x4(at + 16).map(f32::from_bits));
    let (a, b) = (a[0].max(a[1]).max(a[2].max(a[3])), b[0].max(b[1]).max(b[2].max(b[3])));
    a.max(b)
}
