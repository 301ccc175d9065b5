//! Sums of several values at once over the threads of a warp, and of a block.

use super::simt::{barrier, lane, ld_shared_f32, shfl_xor_f32, st_shared_f32, warp, warps};

/// Each lane gives one half of its values for the other half of those of the lane `HALF` away.
#[inline(always)]
unsafe fn halve<const N: usize, const HALF: usize>(values: &mut [f32; N]) {
    let upper = lane() & HALF as u32 != 0;
    let mut i = 0;
    while i < HALF {
        let (low, high) = (values[i], values[i + HALF]);
        let (keep, give) = if upper { (high, low) } else { (low, high) };
        values[i] = keep + shfl_xor_f32(give, HALF as u32);
        i += 1;
    }
}

/// The warp's sums of `N` values a lane, a power of two: lane `l` has that of value `l % N`.
///
/// # Safety
/// Every lane of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn warp_sums<const N: usize>(mut values: [f32; N]) -> f32 {
    if N > 16 {
        halve::<N, 16>(&mut values);
    }
    if N > 8 {
        halve::<N, 8>(&mut values);
    }
    if N > 4 {
        halve::<N, 4>(&mut values);
    }
    if N > 2 {
        halve::<N, 2>(&mut values);
    }
    if N > 1 {
        halve::<N, 1>(&mut values);
    }
    let (mut sum, mut mask) = (values[0], N as u32);
    while mask < 32 {
        sum += shfl_xor_f32(sum, mask);
        mask *= 2;
    }
    sum
}

/// Leaves the warps' sums of `N` values in shared memory from `at` on, `[warps][N]`, for [`block_sum`].
///
/// # Safety
/// Every thread of the block gets here; there is room, which nobody reads any more.
#[inline(always)]
pub(crate) unsafe fn share_sums<const N: usize>(values: [f32; N], at: u32) {
    let sum = warp_sums(values);
    if lane() < N as u32 {
        st_shared_f32(at + 4 * (N as u32 * warp() + lane()), sum);
    }
    barrier();
}

/// The block's sum of value `index` of `N`, in every lane of the warp.
///
/// # Safety
/// Every lane of the warp gets here, after [`share_sums`]; at most 32 warps.
#[inline(always)]
pub(crate) unsafe fn block_sum<const N: usize>(at: u32, index: u32) -> f32 {
    let mut sum = 0.0;
    if lane() < warps() {
        sum = ld_shared_f32(at + 4 * (N as u32 * lane() + index));
    }
    warp_sums([sum])
}
