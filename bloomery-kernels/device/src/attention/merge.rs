//! Results of the pieces of a row to one, in order.

use super::super::abi::attention::{HEADS, SPLITS, partial_floats};
use super::super::simt::{
    WARP, barrier, divide, fma, lane, ld_far_f32x4, ld_far_u32x2, ld_shared_f32, shfl_xor_f32, st_global_f32,
    st_global_f32x4, st_shared_f32, thread, threads,
};
use super::items::Item;
use super::operands::Layout;
use super::{AttendArgs, ENDS, PART, exp2, factor, log_sum};

/// All pieces of a row's heads to their result.
#[inline(always)]
pub(super) unsafe fn merge<const BATCH: usize, const SIGHT: u32>(
    args: &AttendArgs,
    layout: &Layout,
    item: &Item,
    warp: u32,
    heads: u32,
    partial: u64,
) {
    let dim = args.cache.value_dim;
    let bytes = 4 * u64::from(partial_floats(args.group, dim));
    let batch = |unit: u32, first: u32| {
        let (mut values, mut i) = ([[0.0; 4]; BATCH], 0);
        while i < BATCH {
            // Again the last one in place of those that are not there: their share is zero.
            let piece = (first + i as u32).min(item.pieces - 1);
            values[i] = ld_far_f32x4(partial + u64::from(piece) * bytes + u64::from(8 * HEADS + 16 * unit));
            i += 1;
        }
        values
    };
    let units = heads * dim / 4;
    // The loads are on their way while the shares are computed.
    let mut values = batch(thread().min(units - 1), 0);
    let mut head = warp;
    while head < heads {
        let (mut most, mut sum) = (f32::NEG_INFINITY, 0.0);
        if lane() < item.pieces {
            [most, sum] =
                ld_far_u32x2(partial + u64::from(lane()) * bytes + 8 * u64::from(head)).map(f32::from_bits);
        }
        let mut larger = most;
        let mut step = 16;
        while step > 0 {
            larger = larger.max(shfl_xor_f32(larger, step));
            step /= 2;
        }
        let share = exp2((most - larger) * factor(args));
        let mut total = fma(share, sum, 0.0);
        step = 16;
        while step > 0 {
            total += shfl_xor_f32(total, step);
            step /= 2;
        }
        if (SIGHT == PART || SIGHT == ENDS) && lane() == 0 {
            let first = (item.row * args.cache.kv_heads + item.kv_head) * args.group + HEADS * item.tile;
            st_global_f32(args.sums + 4 * u64::from(first + head), log_sum(args, larger, total));
        }
        st_shared_f32(layout.shares + 4 * (SPLITS * head + lane()), share / total);
        head += threads() / WARP;
    }
    barrier();
    let first = (item.row * args.cache.kv_heads + item.kv_head) * args.group + HEADS * item.tile;
    let out = args.out + 4 * u64::from(first) * u64::from(dim);
    let mut unit = thread();
    while unit < units {
        let (head, _) = divide(unit, dim / 4);
        let mut total = [0.0; 4];
        let mut piece = 0;
        loop {
            let mut i = 0;
            while i < BATCH {
                let share = ld_shared_f32(layout.shares + 4 * (SPLITS * head + piece + i as u32));
                let mut j = 0;
                while j < 4 {
                    total[j] = fma(values[i][j], share, total[j]);
                    j += 1;
                }
                i += 1;
            }
            piece += BATCH as u32;
            if piece >= item.pieces {
                break;
            }
            values = batch(unit, piece);
        }
        st_global_f32x4(out + 16 * u64::from(unit), total);
        unit += threads();
        if unit < units {
            values = batch(unit, 0);
        }
    }
}
