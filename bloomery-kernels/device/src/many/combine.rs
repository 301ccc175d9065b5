//! What a token's experts gave, weighted and added to its row in the order of its slots.

use super::super::abi::many::CombineArgs;
use super::super::simt::{
    await_predecessors, block, blocks, divide, fma, ld_global_f32, ld_global_f32x4, ld_global_u32,
    release_successor, st_global_f32x4, thread, threads,
};

/// The kernel: threads take four columns in turn.
///
/// # Safety
/// Buffers of the lengths in [`CombineArgs`], aligned to 16 bytes; `cols` is a multiple of 4.
#[inline(always)]
pub(crate) unsafe fn combine(args: CombineArgs) {
    let CombineArgs { y, out, experts, weights, tokens, cols, used, count, replace, .. } = args;
    await_predecessors();
    release_successor();
    let across = cols / 4;
    let mut at = block() * threads() + thread();
    while at < tokens * across {
        let (token, quad) = divide(at, across);
        let to = out + 16 * u64::from(at);
        let old = if replace == 0 { ld_global_f32x4(to) } else { [0.0; 4] };
        let (mut sum, mut slot) = ([0.0; 4], 0);
        while slot < used {
            let pair = u64::from(token * used + slot);
            if ld_global_u32(experts + 4 * pair) < count {
                let weight = ld_global_f32(weights + 4 * pair);
                let values = ld_global_f32x4(y + 4 * (pair * u64::from(cols) + 4 * u64::from(quad)));
                let mut i = 0;
                while i < 4 {
                    sum[i] = fma(values[i], weight, sum[i]);
                    i += 1;
                }
            }
            slot += 1;
        }
        st_global_f32x4(to, [old[0] + sum[0], old[1] + sum[1], old[2] + sum[2], old[3] + sum[3]]);
        at += blocks() * threads();
    }
}
