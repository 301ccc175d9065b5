//! Few rows: pieces of rows, on all multiprocessors.
//!
//! An item is a piece of a row's positions, for up to 8 query heads of a KV head. A block takes 128 positions at a time:
//! its warps share the positions of the keys and then the dimensions of the values, both straight from global memory in
//! the shape of the tensor cores' operands. The other operand has 16 rows: 8 heads, and again 8 heads for what rounding
//! the first ones to half precision has left. So queries and weights keep 22 bits.
//!
//! Whatever the cache held before this launch's rows is loaded before the predecessor has ended.

use super::super::abi::attention::{CHUNK, HEADS, SPLITS, partial_floats};
use super::super::simt::{
    atomic_add, await_predecessors, barrier, block, blocks, fence, fma, lane, ld_global_f32x4, ld_shared_f32,
    ld_shared_u32, ld_shared_u32x4, mma, release_successor, shfl_xor_f32, st_global_f32, st_global_f32x4,
    st_global_u32, st_shared_f32, st_shared_u32, st_shared_u32x4, thread, threads, uniform_warp,
};
use super::chosen::fours as fours_of;
use super::items::{Item, Rows};
use super::kind::Kind;
use super::merge::merge;
use super::operands::{Keys, Layout, SIXTEENS, Values, halves_of, scale};
use super::{AttendArgs, ENDS, PART, ends, exp2, factor, log_sum};

/// See the module. `CHUNKS`: 32s of dimensions of a key; `BLOCKS`: 16s of positions of a warp; `EIGHTS`: 16s of dimensions of
/// the values in each of the `PARTS` parts of a warp; `BATCH`: partial results that a thread loads at once when it merges, a divisor of
/// [`SPLITS`]; `SIGHT`: which positions rows see.
///
/// With one part, keys and values of the next positions are on their way while these are used. The widest heads leave no
/// registers for that: values are loaded when scores are there, and keys when values have been used.
///
/// # Safety
/// The contract of `Attend::launch`.
#[inline(always)]
pub(crate) unsafe fn decode<
    K: Kind,
    const CHUNKS: usize,
    const BLOCKS: usize,
    const EIGHTS: usize,
    const PARTS: usize,
    const BATCH: usize,
    const SIGHT: u32,
>(
    args: AttendArgs,
) {
    let warp = uniform_warp();
    let layout = Layout::new(CHUNKS as u32);
    let rows = Rows::new::<SIGHT>(&args);
    let mut number = block();
    let mut item = rows.item::<SIGHT>(&args, number);
    if item.is_none() {
        await_predecessors();
        release_successor();
    }
    while let Some(now) = item {
        piece::<K, CHUNKS, BLOCKS, EIGHTS, PARTS, BATCH, SIGHT>(&args, &layout, warp, &now);
        number += blocks();
        item = rows.item::<SIGHT>(&args, number);
    }
}

#[inline(always)]
unsafe fn piece<
    K: Kind,
    const CHUNKS: usize,
    const BLOCKS: usize,
    const EIGHTS: usize,
    const PARTS: usize,
    const BATCH: usize,
    const SIGHT: u32,
>(
    args: &AttendArgs,
    layout: &Layout,
    warp: u32,
    item: &Item,
) {
    let warps = (SIXTEENS / BLOCKS) as u32;
    let (g, t, dim) = (lane() / 4, lane() % 4, args.cache.value_dim);
    if SIGHT == ENDS && item.end == 0 {
        return ends::nothing(args, item);
    }
    // Only what is older than this step may be read before the predecessor's end.
    if item.end > item.fresh {
        await_predecessors();
    }
    let mut start = item.start;
    // Of this chunk and the next one.
    let mut fours = [fours_of::<SIGHT>(args, item, start), [0; 4]];
    if PARTS == 1 {
        fours[1] = fours_of::<SIGHT>(args, item, start + CHUNK);
    }
    let mut keys = keys::<K, CHUNKS, BLOCKS, SIGHT>(args, item, start, warp, fours[0]);
    let mut values = [Values::<K, EIGHTS>::NONE; PARTS];
    if PARTS == 1 {
        values = parts::<K, EIGHTS, PARTS, SIGHT>(args, item, start, warp, fours[0]);
    }
    await_predecessors();
    release_successor();
    // The last item is done with shared memory.
    barrier();
    stage_query::<CHUNKS>(args, layout, item);
    if thread() == 0 {
        st_shared_u32(layout.low, item.low);
    }
    barrier();

    let mut most = f32::NEG_INFINITY;
    let mut sum = 0.0;
    let mut out = [[[[0.0_f32; 4]; 2]; EIGHTS]; PARTS];
    loop {
        let mut scores = keys.scores(layout);
        let next = start + CHUNK;
        if PARTS == 1 && next < item.end {
            keys = self::keys::<K, CHUNKS, BLOCKS, SIGHT>(args, item, next, warp, fours[1]);
        }
        // Registers are short.
        let low = ld_shared_u32(layout.low);
        let mut b = 0;
        let mut larger = f32::NEG_INFINITY;
        while b < BLOCKS {
            let first = start + 16 * (warp * BLOCKS as u32 + b as u32) + 4 * t;
            let mut i = 0;
            while i < 4 {
                let position = first + i as u32;
                if position >= item.end || position < low {
                    scores[b][i] = f32::NEG_INFINITY;
                }
                larger = larger.max(scores[b][i]);
                i += 1;
            }
            b += 1;
        }
        larger = larger.max(shfl_xor_f32(larger, 1));
        larger = larger.max(shfl_xor_f32(larger, 2));
        if t == 0 {
            st_shared_f32(layout.most + 4 * (HEADS * warp + g), larger);
        }
        barrier();
        if PARTS > 1 {
            // Behind the barrier: before it, the keys still have their registers.
            values = parts::<K, EIGHTS, PARTS, SIGHT>(args, item, start, warp, fours[0]);
            fours[1] = fours_of::<SIGHT>(args, item, next);
        }
        larger = most;
        let mut w = 0;
        while w < warps {
            larger = larger.max(ld_shared_f32(layout.most + 4 * (HEADS * w + g)));
            w += 1;
        }
        let kept = exp2((most - larger) * factor(args));
        most = larger;
        b = 0;
        let mut weight = 0.0;
        while b < BLOCKS {
            let mut p = [0.0; 4];
            let mut i = 0;
            while i < 4 {
                p[i] = exp2((scores[b][i] - most) * factor(args));
                i += 1;
            }
            weight += (p[0] + p[1]) + (p[2] + p[3]);
            let at = layout.weights + 512 * (warp * BLOCKS as u32 + b as u32) + 16 * lane();
            if K::SCALED {
                st_shared_u32x4(at, p.map(f32::to_bits));
            } else {
                let ([a, b], [c, d]) = (halves_of(p[0], p[1]), halves_of(p[2], p[3]));
                st_shared_u32x4(at, [a, b, c, d]);
            }
            b += 1;
        }
        sum = fma(sum, kept, weight);
        barrier();
        let mut p = 0;
        while p < PARTS {
            let mut e = 0;
            while e < EIGHTS {
                let mut j = 0;
                while j < 8 {
                    out[p][e][j / 4][j % 4] *= kept;
                    j += 1;
                }
                e += 1;
            }
            p += 1;
        }
        let left = item.end as i32 - (start + 4 * t) as i32;
        gather::<K, EIGHTS, PARTS, SIGHT>(layout, &values, &mut out, left, 0);
        gather::<K, EIGHTS, PARTS, SIGHT>(layout, &values, &mut out, left, SIXTEENS / 2);
        if next >= item.end {
            break;
        }
        if PARTS > 1 {
            keys = self::keys::<K, CHUNKS, BLOCKS, SIGHT>(args, item, next, warp, fours[1]);
        } else {
            values = parts::<K, EIGHTS, PARTS, SIGHT>(args, item, next, warp, fours[1]);
        }
        fours[0] = fours[1];
        if PARTS == 1 {
            fours[1] = fours_of::<SIGHT>(args, item, next + CHUNK);
        }
        start = next;
    }

    sum += shfl_xor_f32(sum, 1);
    sum += shfl_xor_f32(sum, 2);
    if t == 0 {
        st_shared_f32(layout.sums + 4 * (HEADS * warp + g), sum);
    }
    barrier();
    sum = 0.0;
    let mut w = 0;
    while w < warps {
        sum += ld_shared_f32(layout.sums + 4 * (HEADS * w + g));
        w += 1;
    }
    let heads = args.group.min(HEADS);
    let head = HEADS * item.tile + g;
    let unit = (item.row * args.cache.kv_heads + item.kv_head) * args.tiles + item.tile;
    let floats = partial_floats(args.group, dim);
    let partial = args.scratch + 4 * u64::from(unit * SPLITS) * u64::from(floats);
    let mine = partial + 4 * u64::from(item.piece * floats);
    let (mut place, mut inverse) = (mine + 4 * u64::from(2 * HEADS + g * dim), 1.0);
    if item.pieces == 1 {
        let index = (item.row * args.cache.kv_heads + item.kv_head) * args.group + head;
        (place, inverse) = (args.out + 4 * u64::from(index) * u64::from(dim), 1.0 / sum);
        if (SIGHT == PART || SIGHT == ENDS) && warp == 0 && t == 0 && head < args.group {
            st_global_f32(args.sums + 4 * u64::from(index), log_sum(args, most, sum));
        }
    } else if warp == 0 && t == 0 {
        st_global_f32(mine + 8 * u64::from(g), most);
        st_global_f32(mine + 8 * u64::from(g) + 4, sum);
    }
    // Scaled kinds have their weights 256 times as large: small ones would be no halves.
    inverse *= if K::SCALED { 1.0 / 256.0 } else { 1.0 };
    let mut e = 0;
    while e < PARTS * EIGHTS {
        let mut d = 16 * (warp * (PARTS * EIGHTS) as u32 + e as u32) + 4 * t;
        let of = |e: usize, side: usize| {
            let [x, y] = out[e / EIGHTS][e % EIGHTS];
            [x[side] + x[side + 2], y[side] + y[side + 2]]
        };
        let mut pairs = [of(e, 0), of(e, 1)];
        if SIGHT == ENDS {
            // A lane's pairs of both sixteens of 32 dimensions are neighbours.
            let first = e / 2 * 2;
            d = 16 * (warp * (PARTS * EIGHTS) as u32 + first as u32) + 8 * t + 4 * (e % 2) as u32;
            pairs = [of(first, e % 2), of(first + 1, e % 2)];
        }
        if head < args.group && d < dim {
            let [[a, b], [c, d_]] = pairs;
            st_global_f32x4(place + 4 * u64::from(d), [a, b, c, d_].map(|x| x * inverse));
        }
        e += 1;
    }
    if item.pieces > 1 {
        let ticket = args.tickets + 4 * u64::from(unit);
        fence();
        barrier();
        if thread() == 0 {
            st_shared_u32(layout.ticket, atomic_add(ticket, 1));
        }
        barrier();
        if ld_shared_u32(layout.ticket) + 1 == item.pieces {
            fence();
            merge::<BATCH, SIGHT>(
                args,
                layout,
                item,
                warp,
                heads.min(args.group - HEADS * item.tile),
                partial,
            );
            if thread() == 0 {
                st_global_u32(ticket, 0);
            }
        }
    }
}

/// The keys of a warp's positions.
#[inline(always)]
unsafe fn keys<K: Kind, const CHUNKS: usize, const BLOCKS: usize, const SIGHT: u32>(
    args: &AttendArgs,
    item: &Item,
    start: u32,
    warp: u32,
    fours: [u32; 4],
) -> Keys<K, CHUNKS, BLOCKS> {
    match SIGHT {
        super::BLOCKS => Keys::load_chosen(args, item, start, warp, fours[0]),
        ENDS => Keys::load_ends(args, item, warp, fours),
        _ => Keys::load(args, item, start, warp),
    }
}

/// All of a warp's values.
#[inline(always)]
unsafe fn parts<K: Kind, const EIGHTS: usize, const PARTS: usize, const SIGHT: u32>(
    args: &AttendArgs,
    item: &Item,
    start: u32,
    warp: u32,
    fours: [u32; 4],
) -> [Values<K, EIGHTS>; PARTS] {
    let load = |section: u32| match SIGHT {
        super::BLOCKS => Values::load_chosen(args, item, start, section, fours[0]),
        ENDS => Values::load_ends(args, item, section, fours),
        _ => Values::load(args, item, start, section),
    };
    let mut values = [Values::NONE; PARTS];
    values[0] = load(warp * PARTS as u32);
    if PARTS > 1 {
        // No loop: it would be too large for the compiler to unroll.
        values[PARTS / 2] = load(warp * PARTS as u32 + 1);
    }
    values
}

/// Adds the weighted values of half a chunk's sixteens, from `from` on. `left` positions exist from the lane's first one on.
#[inline(always)]
unsafe fn gather<K: Kind, const EIGHTS: usize, const PARTS: usize, const SIGHT: u32>(
    layout: &Layout,
    values: &[Values<K, EIGHTS>; PARTS],
    out: &mut [[[[f32; 4]; 2]; EIGHTS]; PARTS],
    left: i32,
    from: usize,
) {
    let mut s = from;
    while s < from + SIXTEENS / 2 {
        let left = left - 16 * s as i32;
        let shared = ld_shared_u32x4(layout.weights + 512 * s as u32 + 16 * lane());
        let mut p = 0;
        while p < PARTS {
            let mut weights = shared;
            if K::SCALED {
                weights = scaled(weights, values[p].scales[s], left);
            }
            let mut ends = [[0; 4]; 2];
            if SIGHT == ENDS {
                ends = values[p].halves_of_ends(s, left);
            }
            let mut e = 0;
            while e < EIGHTS {
                let h = if SIGHT == ENDS { ends[e % 2] } else { values[p].halves(s, e, left) };
                out[p][e][0] = mma(out[p][e][0], [weights], [[h[0], h[1]]]);
                out[p][e][1] = mma(out[p][e][1], [weights], [[h[2], h[3]]]);
                e += 1;
            }
            p += 1;
        }
        s += 1;
    }
}

/// The queries of an item as operands, by all threads.
#[inline(always)]
unsafe fn stage_query<const CHUNKS: usize>(args: &AttendArgs, layout: &Layout, item: &Item) {
    let cache = &args.cache;
    let first = (item.row * cache.kv_heads + item.kv_head) * args.group + HEADS * item.tile;
    let mut at = thread();
    while at < 64 * CHUNKS as u32 {
        let (step, lane) = (at / 32, at % 32);
        let (g, t) = (lane / 4, lane % 4);
        let d = 32 * (step / 2) + 8 * t + 4 * (step % 2);
        let mut four = [0.0; 4];
        if HEADS * item.tile + g < args.group && d < cache.key_dim {
            four = ld_global_f32x4(
                args.q + 4 * (u64::from(first + g) * u64::from(cache.key_dim) + u64::from(d)),
            );
        }
        let ([a, b], [c, d]) = (halves_of(four[0], four[1]), halves_of(four[2], four[3]));
        st_shared_u32x4(layout.query + 16 * at, [a, b, c, d]);
        at += threads();
    }
}

/// Weights in f32 times the scales of their positions, as an operand.
#[inline(always)]
unsafe fn scaled(weights: [u32; 4], scales: [u32; 2], left: i32) -> [u32; 4] {
    let mut p = [0.0; 4];
    let mut i = 0;
    while i < 4 {
        // A scale that nobody wrote may be anything.
        let factor = if (i as i32) < left { 256.0 * scale(scales, i) } else { 0.0 };
        p[i] = f32::from_bits(weights[i]) * factor;
        i += 1;
    }
    let ([a, b], [c, d]) = (halves_of(p[0], p[1]), halves_of(p[2], p[3]));
    [a, b, c, d]
}
