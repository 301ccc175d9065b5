//! Rows normalised, or made of gate and up, and rounded into memory.

use super::super::abi::many::RoundArgs;
use super::super::abi::rounded::SUMS;
use super::super::rounded::{Source, inverse_rms, square_sum, sum_place, word_place};
use super::super::rounding::{round8, scaled};
use super::super::simt::{
    await_predecessors, barrier, block, lane, release_successor, shared_base, st_global_f32, st_global_u16,
    st_global_u32, st_shared_f32, to_half, warp, warps,
};

/// The kernel: row `block()`.
///
/// # Safety
/// Buffers of the lengths in [`RoundArgs`] for as many rows as the grid has blocks, aligned to 16 bytes; `cols` is a multiple of 8;
/// a float of shared memory for every 256 columns, if there is a norm.
#[inline(always)]
pub(crate) unsafe fn round(args: RoundArgs) {
    let RoundArgs { x, gain, up, to, eps, cols, scales, act, limit, .. } = args;
    let source = Source { x, gain, up, act, limit, eps, cols };
    let (row, groups, squares) = (block(), cols.div_ceil(256), shared_base());
    await_predecessors();
    release_successor();
    if gain != 0 {
        let mut group = warp();
        while group < groups {
            let sum = square_sum(source.values(row, group));
            if lane() == 0 {
                st_shared_f32(squares + 4 * group, sum);
            }
            group += warps();
        }
        barrier();
    }
    let mut group = warp();
    while group < groups {
        let mut values = source.values(row, group);
        if gain != 0 {
            values = scaled(values, inverse_rms(squares, groups, cols, eps), source.gains(group));
        }
        let eight = round8(values, scales);
        let block = u64::from(row) * u64::from(groups) + u64::from(group);
        let at = to.values + 256 * block + u64::from(word_place());
        st_global_u32(at, eight.words[0]);
        st_global_u32(at + 16, eight.words[1]);
        if scales == 1 {
            if lane().is_multiple_of(2) {
                let at = to.sums + u64::from(SUMS) * block + u64::from(sum_place());
                st_global_u16(at, to_half(eight.sum as f32).into());
            }
            if lane() == 0 {
                st_global_f32(to.scales + 4 * block, eight.scale);
            }
        } else if lane().is_multiple_of(4) {
            st_global_f32(to.scales + 32 * block + u64::from(lane()), eight.scale);
        }
        group += warps();
    }
}
