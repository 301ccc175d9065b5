//! Caches of f32: a warp for each head of each row. Exact and slow.

use super::super::abi::attention::PAGE;
use super::super::simt::{
    await_predecessors, block, divide, fma, lane, ld_global_f32, ld_global_f32x4, ld_global_u32,
    ld_shared_f32, release_successor, shared_base, shfl, shfl_xor_f32, st_global_f32, st_shared_f32,
    uniform_warp, warp_barrier, warps,
};
use super::chosen::four;
use super::{AttendArgs, BLOCKS, ENDS, among, ends, exp2, factor, log_sum, page};

/// One head of one row: 32 positions at a time, a lane for each, then a lane for every 32nd dimension, of which it has at most `VALUES`. `CHOSEN`: rows
/// see chosen positions.
///
/// # Safety
/// The contract of `Attend::launch`.
#[inline(always)]
pub(crate) unsafe fn attend<const VALUES: usize, const CHOSEN: bool>(args: AttendArgs) {
    await_predecessors();
    release_successor();
    let cache = &args.cache;
    let heads = args.group * cache.kv_heads;
    let item = block() * warps() + uniform_warp();
    if item >= cache.rows * heads {
        return;
    }
    let (row, head) = divide(item, heads);
    let (kv_head, _) = divide(head, args.group);
    let (key_dim, dim) = (cache.key_dim, cache.value_dim);
    // A query and 32 weights.
    let query = shared_base() + 4 * (key_dim + 32) * uniform_warp();
    let weights = query + 4 * key_dim;
    let q = args.q + 4 * u64::from(item) * u64::from(key_dim);
    let mut at = lane();
    while at < key_dim {
        st_shared_f32(query + 4 * at, ld_global_f32(q + 4 * u64::from(at)));
        at += 32;
    }
    let sequence = ld_global_u32(cache.sequences + 4 * u64::from(row));
    let mut len = ld_global_u32(cache.positions + 4 * u64::from(row)).min(cache.stride * PAGE - 1) + 1;
    if CHOSEN {
        len = if args.every != 0 { among::<ENDS>(&args, len) } else { among::<BLOCKS>(&args, len) };
    }
    let (mut most, mut sum, mut out) = (f32::NEG_INFINITY, 0.0, [0.0; VALUES]);
    let low = len.saturating_sub(args.window);
    let mut start = low / 32 * 32;
    while start < len {
        warp_barrier();
        let part_of = |page: u64| page * u64::from(cache.kv_heads) + u64::from(kv_head);
        // The place of the lane's position, the head's part of its page, and where it is in that.
        let (mut place, mut offset) = (0, (start + lane()) % PAGE);
        let part;
        if CHOSEN {
            place = if args.every != 0 {
                ends::place(&args, (row, sequence), start + lane(), len)
            } else {
                four(&args, row, start + lane(), len) + lane() % 4
            };
            (part, offset) = (part_of(u64::from(place / PAGE)), place % PAGE);
        } else {
            part = part_of(page(cache, sequence, start));
        }
        let mut score = f32::NEG_INFINITY;
        if start + lane() < len && start + lane() >= low {
            let key = cache.keys + 4 * (part * u64::from(PAGE) + u64::from(offset)) * u64::from(key_dim);
            score = 0.0;
            let mut d = 0;
            while d < key_dim {
                let four = ld_global_f32x4(key + 4 * u64::from(d));
                let mut i = 0;
                while i < 4 {
                    score = fma(four[i], ld_shared_f32(query + 4 * (d + i as u32)), score);
                    i += 1;
                }
                d += 4;
            }
        }
        let mut larger = score;
        let mut mask = 16;
        while mask > 0 {
            larger = larger.max(shfl_xor_f32(larger, mask));
            mask /= 2;
        }
        larger = larger.max(most);
        let kept = exp2((most - larger) * factor(&args));
        most = larger;
        let weight = exp2((score - most) * factor(&args));
        sum = fma(sum, kept, weight);
        st_shared_f32(weights + 4 * lane(), weight);
        warp_barrier();
        let mut j = 0;
        while j < VALUES {
            out[j] *= kept;
            j += 1;
        }
        let base = |part: u64| cache.values + 4 * part * u64::from(PAGE) * u64::from(dim);
        let mut values = base(part);
        let mut i = 0;
        while i < 32 && start + i < len {
            let mut offset = (start + i) % PAGE;
            if CHOSEN {
                let place = shfl(place, i);
                (values, offset) = (base(part_of(u64::from(place / PAGE))), place % PAGE);
            }
            let weight = ld_shared_f32(weights + 4 * i);
            j = 0;
            while j < VALUES {
                let d = lane() + 32 * j as u32;
                if d < dim {
                    let value =
                        ld_global_f32(values + 4 * u64::from((offset / 4 * dim + d) * 4 + offset % 4));
                    out[j] = fma(weight, value, out[j]);
                }
                j += 1;
            }
            i += 1;
        }
        start += 32;
    }
    let mut mask = 16;
    while mask > 0 {
        sum += shfl_xor_f32(sum, mask);
        mask /= 2;
    }
    if args.sums != 0 && lane() == 0 {
        st_global_f32(args.sums + 4 * u64::from(item), log_sum(&args, most, sum));
    }
    // Who sees nothing has zeros.
    if CHOSEN && sum == 0.0 {
        sum = 1.0;
    }
    let place = args.out + 4 * u64::from(item) * u64::from(dim);
    let mut j = 0;
    while j < VALUES {
        let d = lane() + 32 * j as u32;
        if d < dim {
            st_global_f32(place + 4 * u64::from(d), out[j] / sum);
        }
        j += 1;
    }
}
