//! Head norms, rotation, and the append to the cache: a warp for each head of each row.

use super::abi::attention::{F16, F32, PAGE, Paged, Q8_0};
use super::abi::rope::{LOW, RopeArgs, Turn, WIDEST};
use super::math::inverse_rms;
use super::simt::{
    await_predecessors, block, divide, fma, half2, lane, ld_global_f32, ld_global_u32, ld_global_u32x2,
    ld_shared_f32, release_successor, shared_base, st_global_f32, st_global_u8, st_global_u16, st_shared_f32,
    uniform_warp, warp_barrier, warp_max, warps,
};

/// Pairs of a lane.
pub(crate) const PAIRS: usize = WIDEST as usize / 64;
/// Values of a lane.
const VALUES: usize = WIDEST as usize / 32;
/// Adding it rounds to an integer.
const ROUND: f32 = 12_582_912.0;

/// Where a row is.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) position: u32,
    /// Of the cache, or beyond its pages: nothing is appended.
    page: u32,
}

/// Finds it.
///
/// # Safety
/// The lengths of [`Paged`]; `row` is one of the launch.
#[inline(always)]
pub(crate) unsafe fn slot(cache: &Paged, row: u32) -> Slot {
    let position = ld_global_u32(cache.positions + 4 * u64::from(row));
    let sequence = ld_global_u32(cache.sequences + 4 * u64::from(row));
    let mut page = u32::MAX;
    if sequence < cache.tables && position / PAGE < cache.stride {
        page = ld_global_u32(
            cache.table + 4 * (u64::from(sequence) * u64::from(cache.stride) + u64::from(position / PAGE)),
        );
    }
    Slot { position, page }
}

/// One head of one row.
///
/// # Safety
/// The contract of `RopeAppend::launch`.
#[inline(always)]
pub(crate) unsafe fn rope_append(args: RopeArgs) {
    let cache = &args.cache;
    let warp = uniform_warp();
    let (dim, kv_heads) = (cache.key_dim, cache.kv_heads);
    let per_row = args.heads + 2 * kv_heads;
    let item = block() * warps() + warp;
    if item >= cache.rows * per_row {
        await_predecessors();
        release_successor();
        return;
    }
    let (row, index) = divide(item, per_row);
    // What no predecessor writes comes first: where the row is, its angles, the gains.
    let slot = slot(cache, row);
    if index >= args.heads + kv_heads {
        let head = index - args.heads - kv_heads;
        let v = args.v + 4 * u64::from(row * kv_heads + head) * u64::from(cache.value_dim);
        await_predecessors();
        release_successor();
        let values = spread::<VALUES>(cache.value_dim, |i| ld_global_f32(v + 4 * u64::from(i)));
        append(cache, slot, head, false, values);
        return;
    }
    let is_query = index < args.heads;
    let (gain, eps) = if is_query { (args.q_gain, args.q_eps) } else { (args.k_gain, args.k_eps) };
    let turning = &args.turn;
    let (places, turns) = turns(turning, slot.position);
    let mut gains = [[1.0; 2]; PAIRS];
    let mut j = 0;
    while j < PAIRS {
        if lane() + 32 * (j as u32) < turning.half && gain != 0 {
            gains[j] = [
                ld_global_f32(gain + 4 * u64::from(places[j][0])),
                ld_global_f32(gain + 4 * u64::from(places[j][1])),
            ];
        }
        j += 1;
    }
    await_predecessors();
    release_successor();

    let x = if is_query {
        args.q + 4 * u64::from(row * args.heads + index) * u64::from(dim)
    } else {
        args.k + 4 * u64::from(row * kv_heads + index - args.heads) * u64::from(dim)
    };
    let mut values = [[0.0; 2]; PAIRS];
    j = 0;
    while j < PAIRS {
        if lane() + 32 * (j as u32) < turning.half {
            values[j] = [
                ld_global_f32(x + 4 * u64::from(places[j][0])),
                ld_global_f32(x + 4 * u64::from(places[j][1])),
            ];
        }
        j += 1;
    }
    let mut inverse = 1.0;
    if gain != 0 {
        inverse = inverse_rms(dim, eps, |at| ld_global_f32(x + 4 * u64::from(at)));
    }
    let stage = shared_base() + 4 * WIDEST * warp;
    let put = |at: u32, value: f32| {
        if is_query {
            st_global_f32(x + 4 * u64::from(at), value);
        } else {
            st_shared_f32(stage + 4 * at, value);
        }
    };
    // All of the warp's reads of the head are done before its writes: the norm's shuffles have seen the values, and a lane
    // writes only what it has read itself.
    j = 0;
    while j < PAIRS {
        if lane() + 32 * (j as u32) < turning.half {
            let [mut a, mut b] = values[j];
            if gain != 0 {
                (a, b) = (a * inverse * gains[j][0], b * inverse * gains[j][1]);
            }
            let [a, b] = turned([a, b], turns[j]);
            put(places[j][0], a);
            put(places[j][1], b);
        }
        j += 1;
    }
    let mut rest = lane();
    while rest < dim - 2 * turning.half {
        let at = if rest < turning.first { rest } else { rest + 2 * turning.half };
        let mut value = ld_global_f32(x + 4 * u64::from(at));
        if gain != 0 {
            value = value * inverse * ld_global_f32(gain + 4 * u64::from(at));
        }
        put(at, value);
        rest += 32;
    }
    if !is_query {
        warp_barrier();
        let values = spread::<VALUES>(dim, |i| ld_shared_f32(stage + 4 * i));
        append(cache, slot, index - args.heads, true, values);
    }
}

/// The values of a lane's pairs, by number, and how far they turn.
///
/// # Safety
/// The lengths of [`Turn`].
#[inline(always)]
pub(crate) unsafe fn turns(turning: &Turn, position: u32) -> ([[u32; 2]; PAIRS], [[f32; 2]; PAIRS]) {
    let (mut places, mut turns) = ([[0_u32; 2]; PAIRS], [[1.0, 0.0]; PAIRS]);
    let mut j = 0;
    while j < PAIRS {
        let pair = lane() + 32 * j as u32;
        let [a, b] =
            if turning.neighbours != 0 { [2 * pair, 2 * pair + 1] } else { [pair, pair + turning.half] };
        places[j] = [turning.first + a, turning.first + b];
        if pair < turning.half {
            turns[j] = turn(turning, position, pair);
        }
        j += 1;
    }
    (places, turns)
}

/// A pair, turned.
#[inline(always)]
pub(crate) fn turned([a, b]: [f32; 2], [c, s]: [f32; 2]) -> [f32; 2] {
    [fma(a, c, -(b * s)), fma(b, c, a * s)]
}

/// Cosine and sine of a pair at a position: those of its multiple of 256 and of the rest, by the theorem of addition.
#[inline(always)]
unsafe fn turn(turning: &Turn, position: u32, pair: u32) -> [f32; 2] {
    let entry = |table: u64, row: u32| {
        ld_global_u32x2(table + 8 * (u64::from(row) * u64::from(turning.half) + u64::from(pair)))
            .map(f32::from_bits)
    };
    let [c, s] = entry(turning.low, position % LOW);
    let [high_c, high_s] = entry(turning.high, (position / LOW).min(turning.high_rows - 1));
    [fma(c, high_c, -(s * high_s)), fma(s, high_c, c * high_s)]
}

/// A lane's values of a head: every 32nd. `load` gives a value.
///
/// # Safety
/// `load` may be called for every one below `dim`.
#[inline(always)]
pub(crate) unsafe fn spread<const N: usize>(dim: u32, load: impl Fn(u32) -> f32) -> [f32; N] {
    let mut values = [0.0; N];
    let mut j = 0;
    while j < N {
        let at = lane() + 32 * j as u32;
        if at < dim {
            values[j] = load(at);
        }
        j += 1;
    }
    values
}

/// Writes a head of a row, spread over the lanes, to its place in the cache.
///
/// # Safety
/// Every lane of the warp gets here; the lengths of [`Paged`]; heads have at most `32 * N` values.
#[inline(always)]
pub(crate) unsafe fn append<const N: usize>(
    cache: &Paged,
    slot: Slot,
    head: u32,
    is_key: bool,
    values: [f32; N],
) {
    if slot.page >= cache.pages {
        return;
    }
    let dim = if is_key { cache.key_dim } else { cache.value_dim };
    let bytes = match cache.kind {
        F32 => 4,
        F16 => 2,
        _ => 1,
    };
    let scales = PAGE * dim * bytes;
    let head_bytes = scales + if cache.kind == Q8_0 { dim / 32 * PAGE * 2 } else { 0 };
    let pages = if is_key { cache.keys } else { cache.values };
    let base =
        pages + (u64::from(slot.page) * u64::from(cache.kv_heads) + u64::from(head)) * u64::from(head_bytes);
    let offset = slot.position % PAGE;
    let mut j = 0;
    while j < N {
        let (at, value) = (lane() + 32 * j as u32, values[j]);
        let element = if is_key { offset * dim + at } else { (offset / 4 * dim + at) * 4 + offset % 4 };
        let place = base + u64::from(bytes * element);
        if cache.kind == Q8_0 {
            // Widths are multiples of 32 here: a group is what the lanes hold now.
            if 32 * (j as u32) < dim {
                let step = f32::from_bits(warp_max(value.to_bits() & 0x7fff_ffff)) / 127.0;
                let inverse = if step > 0.0 { 1.0 / step } else { 0.0 };
                st_global_u8(place, fma(value, inverse, ROUND).to_bits());
                if lane() == 0 {
                    st_global_u16(
                        base + u64::from(scales + 2 * (j as u32 * PAGE + offset)),
                        half2(step, 0.0),
                    );
                }
            }
        } else if at < dim {
            if cache.kind == F32 {
                st_global_f32(place, value);
            } else {
                st_global_u16(place, half2(value, 0.0));
            }
        }
        j += 1;
    }
}
