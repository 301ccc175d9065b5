//! Products of every head's values with a matrix of its own, for any number of rows.
//!
//! A warp keeps 16 rows and up to 128 columns of a matrix in registers, as operands of the tensor cores, and multiplies 8 rows of values at a
//! time with them. These are two halves each, 22 bits. Slices of 128 columns are summed by themselves and then added in their order,
//! whatever the number of rows. Matrices of more than 512 columns have kernels of their own, [`wide`].

pub(crate) mod wide;

use super::abi::heads::{HeadsArgs, ROWS, SIXTEENS, WARPS};
use super::simt::{
    await_predecessors, barrier, block, divide, half, half2, lane, ld_global_f32x4, ld_global_u32x4,
    ld_shared_u32x4, mma, release_successor, shared_base, st_global_f32, st_global_f32x4, st_shared_u32x4,
    thread, threads, uniform_warp,
};

const N: usize = SIXTEENS as usize;

/// See the module. `TAIL`: whether what is behind the products goes along here.
///
/// # Safety
/// The contract of `PerHead::launch`.
#[inline(always)]
pub(crate) unsafe fn per_head<const TAIL: bool>(args: HeadsArgs) {
    let (warp, g, t) = (uniform_warp(), lane() / 4, lane() % 4);
    let (rest, part) = divide(block(), args.blocks);
    let (group, head) = divide(rest, args.heads);
    let (sub, slice) = divide(warp, args.slices);
    let tile = part * divide(WARPS, args.slices).0 + sub;
    let (first, sixteens) = (SIXTEENS * slice, args.cols / 16);
    // Zeros for what a matrix does not have.
    let count = if 16 * tile < args.outs { sixteens.saturating_sub(first) } else { 0 };
    let matrix = u64::from(head * args.outs.div_ceil(16) + tile) * u64::from(sixteens) + u64::from(first);
    let from = args.weights + 512 * matrix + 16 * u64::from(lane());
    let (mut weights, mut i) = ([[0; 4]; N], 0);
    while i < N {
        if (i as u32) < count {
            weights[i] = ld_global_u32x4(from + 512 * i as u64);
        }
        i += 1;
    }
    await_predecessors();
    release_successor();

    let (x_width, out_width) = (args.cols + args.tail, args.outs + args.tail);
    let start = group * args.span;
    let end = (start + args.span).min(args.rows);
    let shared = shared_base() + 512 * warp + 16 * lane();
    let mut row = start;
    while row < end {
        let at = u64::from((row + g) * args.heads + head) * u64::from(x_width);
        let from = args.x + 4 * (at + u64::from(16 * first + 4 * t));
        let (mut x, mut i) = ([[0.0; 4]; N], 0);
        while i < N {
            if row + g < end && (i as u32) < count {
                x[i] = ld_global_f32x4(from + 64 * i as u64);
            }
            i += 1;
        }
        let mut sums = [0.0; 4];
        i = 0;
        while i < N {
            let ([a, b], [c, d]) = (halves_of(x[i][0], x[i][1]), halves_of(x[i][2], x[i][3]));
            sums = mma(sums, [weights[i]; 2], [[a, c], [b, d]]);
            i += 1;
        }
        if args.slices > 1 {
            // The last rows' sums have been added.
            barrier();
            st_shared_u32x4(shared, sums.map(f32::to_bits));
            barrier();
            let mut other = 1;
            while slice == 0 && other < args.slices {
                let more = ld_shared_u32x4(shared + 512 * other).map(f32::from_bits);
                i = 0;
                while i < 4 {
                    sums[i] += more[i];
                    i += 1;
                }
                other += 1;
            }
        }
        i = 0;
        while i < 4 {
            let (out, column) = (16 * tile + g + 8 * (i as u32 / 2), row + 2 * t + i as u32 % 2);
            if slice == 0 && count > 0 && out < args.outs && column < end {
                let at = u64::from(column * args.heads + head) * u64::from(out_width) + u64::from(out);
                st_global_f32(args.out + 4 * at, sums[i]);
            }
            i += 1;
        }
        row += ROWS;
    }
    if TAIL && part == 0 {
        let fours = args.tail / 4;
        let mut at = thread();
        while at < (end - start) * fours {
            let (row, four) = divide(at, fours);
            let line = u64::from((start + row) * args.heads + head);
            let from = args.x + 4 * (line * u64::from(x_width) + u64::from(args.cols + 4 * four));
            let to = args.out + 4 * (line * u64::from(out_width) + u64::from(args.outs + 4 * four));
            st_global_f32x4(to, ld_global_f32x4(from));
            at += threads();
        }
    }
}

/// Two values as halves and what is left of them.
#[inline(always)]
fn halves_of(a: f32, b: f32) -> [u32; 2] {
    let upper = half2(a, b);
    [upper, half2(a - half(upper as u16), b - half((upper >> 16) as u16))]
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::HeadsArgs;

    crate::simt::bounds!(per_head, 128, 4);
    crate::simt::bounds!(per_head_wide, 128, 4);
    crate::simt::bounds!(per_head_wide_many, 128, 3);

    /// See [`per_head`](super::per_head).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn per_head(args: HeadsArgs) {
        super::per_head::<true>(args);
    }
    /// Up to 8 rows.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn per_head_wide(args: HeadsArgs) {
        super::wide::per_head::<1, 1, 8>(args);
    }

    /// Up to 32 rows a block.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn per_head_wide_many(args: HeadsArgs) {
        super::wide::per_head::<4, 2, 1>(args);
    }
}
