//! Rows normalised, rounded, or both, in global memory, as the CPU does it.

use super::abi::norm::NormArgs;
use super::math::inverse_rms;
use super::rounding::{Eight, load8, round8, scaled};
use super::simt::{
    await_predecessors, barrier, block, fma, lane, ld_global_f32, ld_shared_f32, release_successor,
    shared_base, st_global_f32, st_global_f32x4, st_global_u16, st_global_u32x2, st_shared_f32, thread,
    threads, warp, warps,
};

/// Row `block()` of `args.x` in blocks of `BLOCK` (32 or 256).
///
/// # Safety
/// Buffers have the lengths of [`NormArgs`] for as many rows as the grid has blocks and are aligned to 16 bytes; `cols` is a
/// multiple of `BLOCK`, or of 8 where `q` is 0; there are 16 bytes of shared memory and at least 128 threads.
#[inline(always)]
pub(crate) unsafe fn norm_quantize<const BLOCK: u32>(args: NormArgs) {
    await_predecessors();
    release_successor();
    let (row, cols) = (u64::from(block()), args.cols);
    let x = args.x + 4 * row * u64::from(cols);
    let scratch = shared_base();
    if args.gain != 0 && warp() == 0 {
        let inverse = inverse_rms(cols, args.eps, |at| ld_global_f32(x + 4 * u64::from(at)));
        if lane() == 0 {
            st_shared_f32(scratch, inverse);
        }
    }
    barrier();
    let mut group = warp();
    while 256 * group < cols {
        let at = 256 * group + 8 * lane();
        let mut values = [0.0; 8];
        if at < cols {
            values = load8(x + 4 * u64::from(at));
            if args.gain != 0 {
                values = scaled(values, ld_shared_f32(scratch), load8(args.gain + 4 * u64::from(at)));
            }
        }
        let eight = round8(values, 256 / BLOCK);
        if at < cols {
            store::<BLOCK>(&args, row, at, values, eight);
        }
        group += warps();
    }
}

/// Adds row `block()` of `args.x`, normalised, to that of `args.normed`.
///
/// # Safety
/// As [`norm_quantize`]; `cols` is a multiple of 8, and there are gains.
#[inline(always)]
pub(crate) unsafe fn norm_add(args: NormArgs) {
    await_predecessors();
    release_successor();
    let (row, cols) = (u64::from(block()), args.cols);
    let first = 4 * row * u64::from(cols);
    let scratch = shared_base();
    if warp() == 0 {
        let inverse = inverse_rms(cols, args.eps, |at| ld_global_f32(args.x + first + 4 * u64::from(at)));
        if lane() == 0 {
            st_shared_f32(scratch, inverse);
        }
    }
    barrier();
    let inverse = ld_shared_f32(scratch);
    let mut at = 8 * thread();
    while at < cols {
        let place = 4 * u64::from(at);
        let (x, gain) = (load8(args.x + first + place), load8(args.gain + place));
        let (mut out, mut i) = (load8(args.normed + first + place), 0);
        while i < 8 {
            out[i] = fma(x[i] * inverse, gain[i], out[i]);
            i += 1;
        }
        let [a, b, c, d, e, f, g, h] = out;
        st_global_f32x4(args.normed + first + place, [a, b, c, d]);
        st_global_f32x4(args.normed + first + place + 16, [e, f, g, h]);
        at += 8 * threads();
    }
}

/// Eight values from column `at` on.
#[inline(always)]
unsafe fn store<const BLOCK: u32>(args: &NormArgs, row: u64, at: u32, values: [f32; 8], eight: Eight) {
    let first = row * u64::from(args.cols) + u64::from(at);
    if args.normed != 0 {
        let [a, b, c, d, e, f, g, h] = values;
        st_global_f32x4(args.normed + 4 * first, [a, b, c, d]);
        st_global_f32x4(args.normed + 4 * first + 16, [e, f, g, h]);
    }
    if args.q != 0 {
        st_global_u32x2(args.q + first, eight.words);
        if BLOCK == 256 && at.is_multiple_of(16) {
            st_global_u16(args.sums + first / 8, eight.sum as u32);
        }
        if at.is_multiple_of(BLOCK) {
            st_global_f32(args.scales + 4 * (first / u64::from(BLOCK)), eight.scale);
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::{NormArgs, norm_quantize};

    crate::simt::bounds!(norm_add, 512, 2);
    crate::simt::bounds!(norm_quantize_wide, 512, 2);
    crate::simt::bounds!(norm_quantize_narrow, 512, 2);

    /// See [`norm_add`](super::norm_add).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn norm_add(args: NormArgs) {
        super::norm_add(args);
    }

    /// Blocks of 256.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn norm_quantize_wide(args: NormArgs) {
        norm_quantize::<256>(args);
    }

    /// Blocks of 32.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn norm_quantize_narrow(args: NormArgs) {
        norm_quantize::<32>(args);
    }
}
