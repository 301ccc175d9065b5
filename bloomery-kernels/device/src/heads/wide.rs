//! Products with matrices of more columns than the warps of a block keep in registers.
//!
//! Four warps have a quarter of the columns each and take them in ascending order; their sums are added in the order of the warps. So a
//! row has the same bits whether its block has few rows or many.

use super::super::abi::heads::{HeadsArgs, ROWS, WARPS};
use super::super::simt::{
    await_predecessors, barrier, block, divide, lane, ld_global_f32x4, ld_global_u32x4, ld_shared_u32x4, mma,
    release_successor, shared_base, st_global_f32, st_shared_u32x4, uniform_warp,
};
use super::halves_of;

/// `8 R` rows and `16 T` rows of a matrix, with `AHEAD` times 16 columns on their way at once.
///
/// # Safety
/// The contract of `PerHead::launch`, without a tail; 512 bytes of shared memory for each warp, `R` and `T`.
#[inline(always)]
pub(crate) unsafe fn per_head<const R: usize, const T: usize, const AHEAD: usize>(args: HeadsArgs) {
    let (warp, g, t) = (uniform_warp(), lane() / 4, lane() % 4);
    let (rest, part) = divide(block(), args.blocks);
    let (group, head) = divide(rest, args.heads);
    let (tiles, sixteens) = (args.outs.div_ceil(16), args.cols / 16);
    let (tile, each) = (part * T as u32, sixteens.div_ceil(WARPS));
    let first = (each * warp).min(sixteens);
    let end = (first + each).min(sixteens);
    let matrix = u64::from(head * tiles + tile) * u64::from(sixteens);
    let matrix = args.weights + 512 * matrix + 16 * u64::from(lane());
    let load = |at: u32| {
        let (mut weights, mut j) = ([[[0; 4]; T]; AHEAD], 0);
        while j < AHEAD {
            let (column, mut i) = (at + j as u32, 0);
            while i < T {
                if column < end && tile + (i as u32) < tiles {
                    let place = i as u64 * u64::from(sixteens) + u64::from(column);
                    weights[j][i] = ld_global_u32x4(matrix + 512 * place);
                }
                i += 1;
            }
            j += 1;
        }
        weights
    };
    let (mut at, mut next) = (first, load(first));
    await_predecessors();
    release_successor();

    let start = group * args.span;
    let last = (start + args.span).min(args.rows);
    let mut sums = [[[0.0; 4]; R]; T];
    while at < end {
        let (weights, mut x) = (next, [[[0.0; 4]; R]; AHEAD]);
        next = load(at + AHEAD as u32);
        let mut j = 0;
        while j < AHEAD {
            let (column, mut r) = (at + j as u32, 0);
            while r < R {
                let row = start + ROWS * r as u32 + g;
                if column < end && row < last {
                    let line = u64::from(row * args.heads + head) * u64::from(args.cols);
                    x[j][r] = ld_global_f32x4(args.x + 4 * (line + u64::from(16 * column + 4 * t)));
                }
                r += 1;
            }
            j += 1;
        }
        j = 0;
        while j < AHEAD {
            let mut r = 0;
            // Zeros could turn the sign of a zero.
            while r < R && at + (j as u32) < end {
                let ([a, b], [c, d]) = (halves_of(x[j][r][0], x[j][r][1]), halves_of(x[j][r][2], x[j][r][3]));
                let mut i = 0;
                while i < T {
                    sums[i][r] = mma(sums[i][r], [weights[j][i]; 2], [[a, c], [b, d]]);
                    i += 1;
                }
                r += 1;
            }
            j += 1;
        }
        at += AHEAD as u32;
    }

    let (items, shared) = ((R * T) as u32, shared_base() + 16 * lane());
    let mut i = 0;
    while i < T {
        let mut r = 0;
        while r < R {
            let place = warp * items + (i * R + r) as u32;
            st_shared_u32x4(shared + 512 * place, sums[i][r].map(f32::to_bits));
            r += 1;
        }
        i += 1;
    }
    barrier();
    let mut item = warp;
    while item < items {
        let mut sum = ld_shared_u32x4(shared + 512 * item).map(f32::from_bits);
        let mut other = 1;
        while other < WARPS {
            let more = ld_shared_u32x4(shared + 512 * (other * items + item)).map(f32::from_bits);
            let mut i = 0;
            while i < 4 {
                sum[i] += more[i];
                i += 1;
            }
            other += 1;
        }
        let tile = tile + item / R as u32;
        let mut i = 0;
        while i < 4 {
            let row = start + ROWS * (item % R as u32) + 2 * t + i as u32 % 2;
            let out = 16 * tile + g + 8 * (i as u32 / 2);
            if out < args.outs && row < last {
                let line = u64::from(row * args.heads + head) * u64::from(args.outs);
                st_global_f32(args.out + 4 * (line + u64::from(out)), sum[i]);
            }
            i += 1;
        }
        item += WARPS;
    }
}
