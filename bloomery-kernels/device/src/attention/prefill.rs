//! Many rows: tiles of neighbouring rows of a sequence, for one KV head, through all pages that they see.
//!
//! A tile's queries are its rows times the query heads of the KV head; a warp has 16 of them. Pages come to shared memory
//! while the one before is used. Queries are pairs of halves, 22 bits; weights are halves, 11 bits.

use super::super::abi::attention::PAGE;
use super::super::simt::{
    await_predecessors, ballot, barrier, block, copy_async16, copy_commit, copy_wait, divide, fma, half,
    half2, lane, ld_global_f32x4, ld_global_u32, ld_global_u32x2, ld_shared_u32, ld_shared_u32x2,
    ld_shared_u32x4, mma, release_successor, shared_base, shfl_xor_f32, st_global_f32, st_global_f32x4,
    st_shared_u8, st_shared_u16, st_shared_u32x4, thread, threads, uniform_warp, warps,
};
use super::kind::Kind;
use super::operands::halves_of;
use super::{AttendArgs, exp2, factor, head_bytes, log_sum, page};

/// Shared memory of a 16 x 16 operand of a warp.
const OPERAND: u32 = 512;

/// Offsets in shared memory of pages of heads of up to `32 * CHUNKS` values.
#[derive(Clone, Copy)]
struct Stage {
    keys: u32,
    values: u32,
    key_scales: u32,
    value_scales: u32,
}

/// Bytes of a key: 8 lanes that load at once find 8 different groups of banks.
#[inline(always)]
const fn key_stride<K: Kind, const CHUNKS: usize>() -> u32 {
    32 * K::BYTES * (CHUNKS as u32 + 1)
}

/// Bytes of 4 positions of values, as above.
#[inline(always)]
const fn value_stride<K: Kind, const CHUNKS: usize>() -> u32 {
    128 * K::BYTES * CHUNKS as u32 + 32
}

/// Operands of a warp: two halves of each 16 dimensions of its queries, and one more piece for what [`Query`] says.
#[inline(always)]
const fn operands<const CHUNKS: usize>() -> u32 {
    4 * CHUNKS as u32 + 1
}

impl Stage {
    /// Stage `i`, behind the queries.
    #[inline(always)]
    fn new<K: Kind, const CHUNKS: usize>(i: u32) -> Self {
        let (key_bytes, value_bytes) =
            (PAGE * key_stride::<K, CHUNKS>(), PAGE / 4 * value_stride::<K, CHUNKS>());
        let scales = if K::SCALED { 2 * PAGE * CHUNKS as u32 } else { 0 };
        let queries = warps() * operands::<CHUNKS>() * OPERAND;
        let keys = shared_base() + queries + i * (key_bytes + value_bytes + 2 * scales);
        let values = keys + key_bytes;
        let key_scales = values + value_bytes;
        Self { keys, values, key_scales, value_scales: key_scales + scales }
    }

    /// From position `at` of the page on.
    #[inline(always)]
    fn part<K: Kind, const CHUNKS: usize>(self, at: u32) -> Self {
        Self {
            keys: self.keys + at * key_stride::<K, CHUNKS>(),
            values: self.values + at / 4 * value_stride::<K, CHUNKS>(),
            key_scales: self.key_scales + 2 * at,
            value_scales: self.value_scales + 2 * at,
        }
    }
}

/// Starts to copy the page of `position`.
#[inline(always)]
unsafe fn copy<K: Kind, const CHUNKS: usize>(
    args: &AttendArgs,
    (sequence, kv_head): (u32, u32),
    position: u32,
    stage: Stage,
) {
    let cache = &args.cache;
    let part = page(cache, sequence, position) * u64::from(cache.kv_heads) + u64::from(kv_head);
    for_lines(
        cache.keys + part * u64::from(head_bytes::<K>(cache.key_dim)),
        stage.keys,
        PAGE,
        (2 * CHUNKS as u32 * K::BYTES, K::BYTES * cache.key_dim, key_stride::<K, CHUNKS>()),
    );
    for_lines(
        cache.values + part * u64::from(head_bytes::<K>(cache.value_dim)),
        stage.values,
        PAGE / 4,
        (8 * CHUNKS as u32 * K::BYTES, 4 * K::BYTES * cache.value_dim, value_stride::<K, CHUNKS>()),
    );
    if K::SCALED {
        for (pages, dim, to) in [
            (cache.keys, cache.key_dim, stage.key_scales),
            (cache.values, cache.value_dim, stage.value_scales),
        ] {
            let from = pages + part * u64::from(head_bytes::<K>(dim)) + u64::from(PAGE * dim);
            for_lines(from, to, 1, (8 * CHUNKS as u32, 2 * PAGE * (dim / 32), 0));
        }
    }
}

/// Starts to copy `lines` of `bytes` bytes, in up to `pieces` of 16 bytes each, to places `stride` bytes apart.
#[inline(always)]
unsafe fn for_lines(from: u64, to: u32, lines: u32, (pieces, bytes, stride): (u32, u32, u32)) {
    let mut at = thread();
    while at < lines * pieces {
        let (line, byte) = (at / pieces, 16 * (at % pieces));
        if byte < bytes {
            copy_async16(to + line * stride + byte, from + u64::from(line * bytes + byte));
        }
        at += threads();
    }
}

/// Zeros in place of the values of positions from `left` on: nobody wrote them, they may be infinite.
#[inline(always)]
unsafe fn clear<K: Kind, const CHUNKS: usize>(args: &AttendArgs, stage: Stage, left: u32) {
    let dim = args.cache.value_dim;
    let mut at = left;
    while at < PAGE {
        let place = stage.values + at / 4 * value_stride::<K, CHUNKS>() + at % 4 * K::BYTES;
        let mut d = thread();
        while d < dim {
            if K::SCALED {
                st_shared_u8(place + 4 * d, 0);
                if d & 31 == 0 {
                    st_shared_u16(stage.value_scales + 2 * (PAGE * (d / 32) + at), 0);
                }
            } else {
                st_shared_u16(place + 8 * d, 0);
            }
            d += threads();
        }
        at += 1;
    }
}

/// One of a lane's two queries. They lie in shared memory: registers are short, and they are rarely needed.
#[derive(Clone, Copy)]
struct Query {
    /// Of all rows of all heads; `MISSING` beyond the tile.
    index: u32,
    /// Positions that it sees.
    len: u32,
}

const MISSING: u32 = u32::MAX;

impl Query {
    #[inline(always)]
    unsafe fn load(at: u32) -> [Self; 2] {
        let [a, b, c, d] = ld_shared_u32x4(at);
        [Self { index: a, len: b }, Self { index: c, len: d }]
    }
}

/// See the module. `CHUNKS`: 32s of dimensions; `N`: 16s of positions that a warp takes at once.
///
/// # Safety
/// The contract of `Attend::launch`.
#[inline(always)]
pub(crate) unsafe fn prefill<K: Kind, const CHUNKS: usize, const N: usize>(args: AttendArgs) {
    await_predecessors();
    release_successor();
    let (cache, group, warp) = (&args.cache, args.group, uniform_warp());
    let (g, t) = (lane() / 4, lane() % 4);
    let (tile, kv_head) = divide(block(), cache.kv_heads);
    let [first, count] = ld_global_u32x2(args.scratch + 8 * u64::from(tile));
    // Whatever the list says, only rows of the launch that the block has room for.
    let first = first.min(cache.rows - 1);
    let count = count.max(1).min(cache.rows - first).min(divide(16 * warps(), group).0);
    let queries = count * group;
    let sequence = ld_global_u32(cache.sequences + 4 * u64::from(first));
    let len = |m: u32| {
        let row = first + divide(m.min(queries - 1), group).0;
        ld_global_u32(cache.positions + 4 * u64::from(row)).min(cache.stride * PAGE - 1) + 1
    };
    let query = |m: u32| {
        let (row, head) = divide(m.min(queries - 1), group);
        let index = ((first + row) * cache.kv_heads + kv_head) * group + head;
        Query { index: if m < queries { index } else { MISSING }, len: len(m) }
    };
    let lines = [query(16 * warp + g), query(16 * warp + g + 8)];
    let end = len(queries - 1);
    // What all queries of the warp see, and what any does.
    let (all, any) = (len(16 * warp), if 16 * warp < queries { len(16 * warp + 15) } else { 0 });

    let operands = shared_base() + warp * operands::<CHUNKS>() * OPERAND + 16 * lane();
    stage_queries::<CHUNKS>(&args, lines, operands);
    let place = operands + 4 * CHUNKS as u32 * OPERAND;
    st_shared_u32x4(place, [lines[0].index, lines[0].len, lines[1].index, lines[1].len]);

    let mut most = [f32::NEG_INFINITY; 2];
    let mut sum = [0.0_f32; 2];
    let mut out = [[[[0.0_f32; 4]; 2]; 2]; CHUNKS];
    // The widest heads leave no registers for more.
    let two = CHUNKS <= 4 && args.stages > 1;
    // The first row's window begins first.
    let mut start = len(0).saturating_sub(args.window) / PAGE * PAGE;
    copy::<K, CHUNKS>(&args, (sequence, kv_head), start, Stage::new::<K, CHUNKS>(0));
    copy_commit();
    let mut turn = 0;
    while start < end {
        let stage = Stage::new::<K, CHUNKS>(turn);
        let next = start + PAGE;
        if two {
            turn ^= 1;
            if next < end {
                copy::<K, CHUNKS>(&args, (sequence, kv_head), next, Stage::new::<K, CHUNKS>(turn));
            }
            copy_commit();
            copy_wait(1);
        } else {
            copy_wait(0);
        }
        barrier();
        if next > end {
            clear::<K, CHUNKS>(&args, stage, end - start);
            barrier();
        }
        // Nothing of the page before the warp's first window.
        let mut at = start.max(all.saturating_sub(args.window) / (16 * N as u32) * (16 * N as u32));
        while at < any.min(next) {
            let part = stage.part::<K, CHUNKS>(at - start);
            let mut scores = scores::<K, CHUNKS, N>(&args, part, operands);
            let after = at + 16 * N as u32;
            if after > all || at < any.saturating_sub(args.window) {
                hide(&args, &mut scores, at, Query::load(place));
            }
            soften(&args, &mut scores, &mut most, &mut sum, &mut out);
            // In halves, each of which is small enough for the compiler to unroll.
            gather::<K, CHUNKS, N>(&args, part, &scores, &mut out, 0);
            if CHUNKS > 4 {
                gather::<K, CHUNKS, N>(&args, part, &scores, &mut out, 4);
            }
            at = after;
        }
        barrier();
        if !two && next < end {
            copy::<K, CHUNKS>(&args, (sequence, kv_head), next, stage);
            copy_commit();
        }
        start = next;
    }
    copy_wait(0);

    let lines = Query::load(place);
    let mut i = 0;
    while i < 2 {
        sum[i] += shfl_xor_f32(sum[i], 1);
        sum[i] += shfl_xor_f32(sum[i], 2);
        // Scaled kinds have their weights 256 times as large: small ones would be no halves.
        let inverse = if K::SCALED { 1.0 / 256.0 } else { 1.0 } / sum[i];
        if args.sums != 0 && t == 0 && lines[i].index != MISSING {
            let place = args.sums + 4 * u64::from(lines[i].index);
            st_global_f32(place, log_sum(&args, most[i], sum[i]));
        }
        let out_place = args.out + 4 * u64::from(lines[i].index) * u64::from(cache.value_dim);
        let mut c = 0;
        while c < CHUNKS {
            let mut e = 0;
            while e < 2 {
                let d = 32 * c as u32 + 16 * e as u32 + 4 * t;
                if lines[i].index != MISSING && d < cache.value_dim {
                    let [x, y] = out[c][e];
                    let four = [x[2 * i], y[2 * i], x[2 * i + 1], y[2 * i + 1]];
                    st_global_f32x4(out_place + 4 * u64::from(d), four.map(|x| x * inverse));
                }
                e += 1;
            }
            c += 1;
        }
        i += 1;
    }
}

/// The queries of a warp as operands; each lane later loads what it writes here. For 16 dimensions: the upper halves, then
/// what they leave.
#[inline(always)]
unsafe fn stage_queries<const CHUNKS: usize>(args: &AttendArgs, lines: [Query; 2], operands: u32) {
    let dim = args.cache.key_dim;
    let mut step = 0;
    while step < 2 * CHUNKS as u32 {
        let d = 32 * (step / 2) + 8 * (lane() % 4) + 4 * (step % 2);
        let mut parts = [[[0_u32; 2]; 2]; 2];
        let mut i = 0;
        while i < 2 {
            let mut four = [0.0; 4];
            if lines[i].index != MISSING && d < dim {
                let place = u64::from(lines[i].index) * u64::from(dim) + u64::from(d);
                four = ld_global_f32x4(args.q + 4 * place);
            }
            parts[i] = [halves_of(four[0], four[1]), halves_of(four[2], four[3])];
            i += 1;
        }
        let [x, y] = parts;
        let at = operands + 2 * OPERAND * step;
        st_shared_u32x4(at, [x[0][0], y[0][0], x[1][0], y[1][0]]);
        st_shared_u32x4(at + OPERAND, [x[0][1], y[0][1], x[1][1], y[1][1]]);
        step += 1;
    }
}

/// Products of two queries and two times two of every 16 keys: `[sixteen][two keys][query 0, query 0, query 1, query 1]`.
type Scores<const N: usize> = [[[f32; 4]; 2]; N];

#[inline(always)]
unsafe fn scores<K: Kind, const CHUNKS: usize, const N: usize>(
    args: &AttendArgs,
    stage: Stage,
    operands: u32,
) -> Scores<N> {
    let (g, t, dim) = (lane() / 4, lane() % 4, args.cache.key_dim);
    let mut scores = [[[0.0_f32; 4]; 2]; N];
    let mut c = 0;
    while 32 * c < dim {
        let at = operands + 4 * OPERAND * c;
        let query = [
            ld_shared_u32x4(at),
            ld_shared_u32x4(at + OPERAND),
            ld_shared_u32x4(at + 2 * OPERAND),
            ld_shared_u32x4(at + 3 * OPERAND),
        ];
        // Beyond the key any of its values will do: queries are zero there.
        let d = (32 * c + 8 * t).min(dim - 8);
        let mut s = 0;
        while s < N {
            let mut i = 0;
            while i < 2 {
                let key = 16 * s as u32 + 4 * (g / 2) + 2 * i as u32 + g % 2;
                let h =
                    K::halves(K::load_shared(stage.keys + key * key_stride::<K, CHUNKS>() + K::BYTES * d));
                let (a, b) = ([h[0], h[1]], [h[2], h[3]]);
                if K::SCALED {
                    let sum = mma([0.0; 4], query, [a, a, b, b]);
                    let place = PAGE * c + 16 * s as u32 + 4 * t + 2 * i as u32;
                    let pair = ld_shared_u32(stage.key_scales + 2 * place);
                    let factors = [half(pair as u16), half((pair >> 16) as u16)];
                    let mut j = 0;
                    while j < 4 {
                        scores[s][i][j] = fma(sum[j], factors[j % 2], scores[s][i][j]);
                        j += 1;
                    }
                } else {
                    scores[s][i] = mma(scores[s][i], query, [a, a, b, b]);
                }
                i += 1;
            }
            s += 1;
        }
        c += 1;
    }
    scores
}

/// Scores of positions that a query does not see become minus infinity.
#[inline(always)]
unsafe fn hide<const N: usize>(args: &AttendArgs, scores: &mut Scores<N>, start: u32, lines: [Query; 2]) {
    let mut s = 0;
    while s < N {
        let mut j = 0;
        while j < 8 {
            let position = start + 16 * s as u32 + 4 * (lane() % 4) + 2 * (j as u32 / 4) + j as u32 % 2;
            let len = lines[j % 4 / 2].len;
            if position >= len || position < len.saturating_sub(args.window) {
                scores[s][j / 4][j % 4] = f32::NEG_INFINITY;
            }
            j += 1;
        }
        s += 1;
    }
}

/// Scores become weights; what was added up before shrinks to the new largest score.
#[inline(always)]
unsafe fn soften<const CHUNKS: usize, const N: usize>(
    args: &AttendArgs,
    scores: &mut Scores<N>,
    most: &mut [f32; 2],
    sum: &mut [f32; 2],
    out: &mut [[[[f32; 4]; 2]; 2]; CHUNKS],
) {
    let factor = factor(args);
    let mut kept = [0.0; 2];
    let mut i = 0;
    while i < 2 {
        let mut larger = most[i];
        let mut s = 0;
        while s < N {
            let [x, y] = scores[s];
            larger = larger.max(x[2 * i].max(x[2 * i + 1])).max(y[2 * i].max(y[2 * i + 1]));
            s += 1;
        }
        larger = larger.max(shfl_xor_f32(larger, 1));
        larger = larger.max(shfl_xor_f32(larger, 2));
        // Of positions before a row's window, none may have a score yet.
        let base = if larger == f32::NEG_INFINITY { 0.0 } else { larger };
        kept[i] = exp2((most[i] - base) * factor);
        most[i] = larger;
        let offset = -(base * factor);
        let mut added = 0.0;
        s = 0;
        while s < N {
            let mut j = 0;
            while j < 4 {
                let weight = exp2(fma(scores[s][j / 2][2 * i + j % 2], factor, offset));
                scores[s][j / 2][2 * i + j % 2] = weight;
                added += weight;
                j += 1;
            }
            s += 1;
        }
        sum[i] = fma(sum[i], kept[i], added);
        i += 1;
    }
    if ballot(kept[0] != 1.0 || kept[1] != 1.0) != 0 {
        let mut c = 0;
        while c < CHUNKS {
            let mut j = 0;
            while j < 16 {
                out[c][j / 8][j / 4 % 2][j % 4] *= kept[j % 4 / 2];
                j += 1;
            }
            c += 1;
        }
    }
}

/// Adds the weighted values of a page: up to 128 dimensions from the 32 numbered `from` on.
#[inline(always)]
unsafe fn gather<K: Kind, const CHUNKS: usize, const N: usize>(
    args: &AttendArgs,
    stage: Stage,
    weights: &Scores<N>,
    out: &mut [[[[f32; 4]; 2]; 2]; CHUNKS],
    from: usize,
) {
    let (g, t) = (lane() / 4, lane() % 4);
    let mut s = 0;
    while s < N {
        let [x, y] = weights[s];
        let mut operand = [half2(x[0], x[1]), half2(x[2], x[3]), half2(y[0], y[1]), half2(y[2], y[3])];
        let quad = stage.values + (4 * s as u32 + t) * value_stride::<K, CHUNKS>() + 8 * K::BYTES * g;
        let mut c = from;
        while c < CHUNKS && c < from + 4 {
            if 32 * (c as u32) < args.cache.value_dim {
                if K::SCALED {
                    let at = stage.value_scales + 2 * (PAGE * c as u32 + 16 * s as u32 + 4 * t);
                    let [a, b] = ld_shared_u32x2(at);
                    let four =
                        [a as u16, (a >> 16) as u16, b as u16, (b >> 16) as u16].map(|x| 256.0 * half(x));
                    operand = [
                        half2(x[0] * four[0], x[1] * four[1]),
                        half2(x[2] * four[0], x[3] * four[1]),
                        half2(y[0] * four[2], y[1] * four[3]),
                        half2(y[2] * four[2], y[3] * four[3]),
                    ];
                }
                let mut e = 0;
                while e < 2 {
                    let h = K::halves(K::load_shared(quad + 4 * K::BYTES * (32 * c as u32 + 16 * e as u32)));
                    out[c][e][0] = mma(out[c][e][0], [operand], [[h[0], h[1]]]);
                    out[c][e][1] = mma(out[c][e][1], [operand], [[h[2], h[3]]]);
                    e += 1;
                }
            }
            c += 1;
        }
        s += 1;
    }
}
