//! Head norms, rotation, and the append to the cache: a warp for each head of each row.

use super::abi::attention::{F16, F32, PAGE, Q8_0};
use super::abi::rope::{LOW, RopeArgs, WIDEST};
use super::math::inverse_rms;
use super::simt::{
    await_predecessors, block, divide, fma, half2, lane, ld_global_f32, ld_global_u32, ld_global_u32x2,
    ld_shared_f32, release_successor, shared_base, st_global_f32, st_global_u8, st_global_u16, st_shared_f32,
    uniform_warp, warp_barrier, warp_max, warps,
};

/// Pairs of a lane.
const PAIRS: usize = WIDEST as usize / 64;
/// Values of a lane.
const VALUES: usize = WIDEST as usize / 32;
/// Adding it rounds to an integer.
const ROUND: f32 = 12_582_912.0;

/// Where a row is.
#[derive(Clone, Copy)]
struct Slot {
    position: u32,
    /// Of the cache, or beyond its pages: nothing is appended.
    page: u32,
}

#[inline(always)]
unsafe fn slot(args: &RopeArgs, row: u32) -> Slot {
    let cache = &args.cache;
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
    let slot = slot(&args, row);
    if index >= args.heads + kv_heads {
        let head = index - args.heads - kv_heads;
        let v = args.v + 4 * u64::from(row * kv_heads + head) * u64::from(cache.value_dim);
        await_predecessors();
        release_successor();
        append(&args, slot, head, false, |i| ld_global_f32(v + 4 * u64::from(i)));
        return;
    }
    let is_query = index < args.heads;
    let (gain, eps) = if is_query { (args.q_gain, args.q_eps) } else { (args.k_gain, args.k_eps) };
    let (mut turns, mut places, mut gains) = ([[1.0, 0.0]; PAIRS], [[0_u32; 2]; PAIRS], [[1.0; 2]; PAIRS]);
    let mut j = 0;
    while j < PAIRS {
        let pair = lane() + 32 * j as u32;
        places[j] = if args.neighbours != 0 { [2 * pair, 2 * pair + 1] } else { [pair, pair + args.half] };
        if pair < args.half {
            turns[j] = turn(&args, slot.position, pair);
            if gain != 0 {
                gains[j] = [
                    ld_global_f32(gain + 4 * u64::from(places[j][0])),
                    ld_global_f32(gain + 4 * u64::from(places[j][1])),
                ];
            }
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
        if lane() + 32 * (j as u32) < args.half {
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
        if lane() + 32 * (j as u32) < args.half {
            let [mut a, mut b] = values[j];
            if gain != 0 {
                (a, b) = (a * inverse * gains[j][0], b * inverse * gains[j][1]);
            }
            let [c, s] = turns[j];
            put(places[j][0], fma(a, c, -(b * s)));
            put(places[j][1], fma(b, c, a * s));
        }
        j += 1;
    }
    let mut at = 2 * args.half + lane();
    while at < dim {
        let mut value = ld_global_f32(x + 4 * u64::from(at));
        if gain != 0 {
            value = value * inverse * ld_global_f32(gain + 4 * u64::from(at));
        }
        put(at, value);
        at += 32;
    }
    if !is_query {
        warp_barrier();
        append(&args, slot, index - args.heads, true, |i| ld_shared_f32(stage + 4 * i));
    }
}

/// Cosine and sine of a pair at a position: those of its multiple of 256 and of the rest, by the theorem of addition.
#[inline(always)]
unsafe fn turn(args: &RopeArgs, position: u32, pair: u32) -> [f32; 2] {
    let entry = |table: u64, row: u32| {
        ld_global_u32x2(table + 8 * (u64::from(row) * u64::from(args.half) + u64::from(pair)))
            .map(f32::from_bits)
    };
    let [c, s] = entry(args.low, position % LOW);
    let [high_c, high_s] = entry(args.high, (position / LOW).min(args.high_rows - 1));
    [fma(c, high_c, -(s * high_s)), fma(s, high_c, c * high_s)]
}

/// Writes a head of a row to its place in the cache. `load` gives a value.
#[inline(always)]
unsafe fn append(args: &RopeArgs, slot: Slot, head: u32, is_key: bool, load: impl Fn(u32) -> f32) {
    let cache = &args.cache;
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
    let mut values = [0.0; VALUES];
    let mut j = 0;
    while j < VALUES {
        let at = lane() + 32 * j as u32;
        if at < dim {
            values[j] = load(at);
        }
        j += 1;
    }
    j = 0;
    while j < VALUES {
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

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::RopeArgs;

    crate::simt::bounds!(rope_append, 128, 4);

    /// See [`rope_append`](super::rope_append).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn rope_append(args: RopeArgs) {
        super::rope_append(args);
    }
}
