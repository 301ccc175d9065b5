//! Hyper-connections of four streams.
//!
//! Products of a row with the matrix are sums over pieces of the columns, always the same pieces, so that a row's bits do not
//! depend on how many rows there are. The mixing matrix is `r_i K_ij c_j` all the time, `K` being what Sinkhorn's rounds begin with:
//! a round changes only the factors.

use super::super::abi::streams::{
    HYPER, HYPER_COLUMNS, HYPER_READ_THREADS, HYPER_SUMS, HYPER_WEIGHTS, HyperArgs,
};
use super::super::fold::warp_sums;
use super::super::math::{exp, sigmoid};
use super::super::simt::{
    await_predecessors, barrier, block, divide, fma, lane, ld_global_f32, ld_global_f32x4, ld_shared_f32,
    release_successor, shared_base, shfl, sqrt, st_global_f32, st_global_f32x4, st_shared_f32, thread, warp,
};

const N: usize = HYPER as usize;
const WEIGHTS: usize = HYPER_WEIGHTS as usize;
const SUMS: usize = HYPER_SUMS as usize;
/// Bytes of a row's weights that streams are written with.
const ROW: u64 = 4 * HYPER_WEIGHTS as u64;

/// 64 columns of all streams of some rows: writes to them what a part returned, and sums up their products with the matrix.
///
/// # Safety
/// The contract of `HyperPass`: buffers of the lengths in [`HyperArgs`], aligned to 16 bytes;
/// [`HYPER_THREADS`](super::super::abi::streams::HYPER_THREADS) threads and
/// [`HYPER_PASS_BYTES`](super::super::abi::streams::HYPER_PASS_BYTES) of shared memory.
#[inline(always)]
pub(crate) unsafe fn hyper_pass(args: HyperArgs) {
    let HyperArgs { width, rows, chunks, share, .. } = args;
    let (group, chunk) = divide(block(), chunks);
    let (stream, quad) = (thread() / (HYPER_COLUMNS / 4), thread() % (HYPER_COLUMNS / 4));
    let column = chunk * HYPER_COLUMNS + 4 * quad;
    let exists = column < width;
    let place = |stream: u32| 4 * u64::from(stream * width + column);
    let (mut matrix, mut output) = ([[0.0; 4]; WEIGHTS], 0);
    if args.matrix != 0 && exists {
        while output < WEIGHTS {
            let row = 4 * u64::from(output as u32 * HYPER) * u64::from(width);
            if (output as u32) < args.outputs {
                matrix[output] = ld_global_f32x4(args.matrix + row + place(stream));
            }
            output += 1;
        }
    }
    await_predecessors();
    release_successor();
    let mut row = group * share;
    let end = (row + share).min(rows);
    while row < end {
        let start = args.x + 4 * u64::from(row) * u64::from(HYPER * width);
        let mut x = [0.0; 4];
        if exists {
            x = ld_global_f32x4(start + place(stream));
        }
        if args.y != 0 {
            if exists {
                x = written(&args, row, start, column, stream);
            }
            // All have read what is going to change.
            barrier();
            if exists {
                st_global_f32x4(start + place(stream), x);
            }
        }
        if args.matrix != 0 {
            let (mut sums, mut output) = ([0.0; SUMS], 0);
            while output < WEIGHTS {
                sums[output] = dot(x, matrix[output]);
                output += 1;
            }
            sums[WEIGHTS] = dot(x, x);
            let sum = warp_sums(sums);
            // Of this row and the next by turns, so that one barrier a row is enough.
            let shared = shared_base() + 4 * (HYPER_SUMS * (row % 2) + lane());
            if warp() == 1 {
                st_shared_f32(shared, sum);
            }
            barrier();
            if warp() == 0 {
                let at = u64::from(row) * u64::from(chunks) + u64::from(chunk);
                let at = at * u64::from(HYPER_SUMS) + u64::from(lane());
                st_global_f32(args.sums + 4 * at, sum + ld_shared_f32(shared));
            }
        }
        row += 1;
    }
}

/// Four columns of a stream after the part has written.
#[inline(always)]
unsafe fn written(args: &HyperArgs, row: u32, start: u64, column: u32, stream: u32) -> [f32; 4] {
    let weights = args.weights + ROW * u64::from(row);
    let write = ld_global_f32(weights + 4 * u64::from(HYPER + stream));
    let y = ld_global_f32x4(args.y + 4 * (u64::from(row) * u64::from(args.width) + u64::from(column)));
    let (mut mix, mut x, mut i) = ([0.0; N], [[0.0; 4]; N], 0);
    while i < N {
        mix[i] = ld_global_f32(weights + 4 * u64::from(HYPER * (2 + i as u32) + stream));
        x[i] = ld_global_f32x4(start + 4 * u64::from(i as u32 * args.width + column));
        i += 1;
    }
    let (mut out, mut j) = ([0.0; 4], 0);
    while j < 4 {
        let (mut sum, mut i) = (write * y[j], 0);
        while i < N {
            sum = fma(mix[i], x[i][j], sum);
            i += 1;
        }
        out[j] = sum;
        j += 1;
    }
    out
}

#[inline(always)]
fn dot(a: [f32; 4], b: [f32; 4]) -> f32 {
    fma(a[3], b[3], fma(a[2], b[2], fma(a[1], b[1], a[0] * b[0])))
}

/// Chunks whose sums are on their way at once.
const BATCH: usize = 8;
const WARPS: u32 = HYPER_READ_THREADS / 32;

/// Block `block() % (parts + 1)` of a row: the first makes the weights, the others read columns. Without weights to make there is none of
/// the first kind. Who reads with weights that are there already needs no sums.
///
/// # Safety
/// The contract of `HyperRead`: buffers of the lengths in [`HyperArgs`], aligned to 16 bytes; [`HYPER_READ_THREADS`] threads and
/// [`HYPER_READ_BYTES`](super::super::abi::streams::HYPER_READ_BYTES) of shared memory.
#[inline(always)]
pub(crate) unsafe fn hyper_read(args: HyperArgs) {
    let HyperArgs { width, chunks, parts, .. } = args;
    let makers = u32::from(args.weights != 0);
    let (row, part) = divide(block(), parts + makers);
    // What a weight's logit is multiplied with and added to: of the lane's weight.
    let (mut scale, mut base) = (0.0, 0.0);
    if lane() < args.outputs {
        let kind = (lane() / HYPER).min(2);
        scale = ld_global_f32(args.scale + 4 * u64::from(kind));
        base = ld_global_f32(args.base + 4 * u64::from(lane()));
    }
    await_predecessors();
    release_successor();
    if args.from != 0 && part >= makers {
        let mut weight = 0.0;
        if lane() < HYPER {
            weight = ld_global_f32(args.from + ROW * u64::from(row) + 4 * u64::from(lane()));
        }
        read(&args, row, part - makers, weight);
        return;
    }
    let sums = args.sums + 4 * u64::from(row) * u64::from(chunks * HYPER_SUMS);
    let (mut sum, mut chunk) = (0.0, warp());
    while chunk < chunks {
        let (mut values, mut i) = ([0.0; BATCH], 0);
        while i < BATCH {
            let chunk = chunk + WARPS * i as u32;
            if chunk < chunks {
                values[i] = ld_global_f32(sums + 4 * u64::from(chunk * HYPER_SUMS + lane()));
            }
            i += 1;
        }
        let mut i = 0;
        while i < BATCH {
            sum += values[i];
            i += 1;
        }
        chunk += WARPS * BATCH as u32;
    }
    st_shared_f32(shared_base() + 4 * thread(), sum);
    barrier();
    let (mut total, mut i) = (0.0, 0);
    while i < WARPS {
        total += ld_shared_f32(shared_base() + 4 * (32 * i + lane()));
        i += 1;
    }
    let square = of_lane(total, HYPER_WEIGHTS);
    let size = 1.0 / sqrt(square / (HYPER * width) as f32 + args.norm_eps);
    let logit = fma(total * size, scale, base);
    if part > 0 {
        read(&args, row, part - 1, sigmoid(logit) + args.eps);
    } else if warp() == 0 {
        weigh(&args, row, logit);
    }
}

#[inline(always)]
unsafe fn of_lane(value: f32, from: u32) -> f32 {
    f32::from_bits(shfl(value.to_bits(), from))
}

/// Reads some columns with the weights of the first lanes.
#[inline(always)]
unsafe fn read(args: &HyperArgs, row: u32, part: u32, weight: f32) {
    let (mut weights, mut i) = ([0.0; N], 0);
    while i < N {
        weights[i] = of_lane(weight, i as u32);
        i += 1;
    }
    let width = u64::from(args.width);
    let start = args.x + 4 * u64::from(row) * u64::from(HYPER) * width;
    let mut column = 4 * (part * HYPER_READ_THREADS + thread());
    while column < args.width {
        let place = 4 * u64::from(column);
        let (mut x, mut i) = ([[0.0; 4]; N], 0);
        while i < N {
            x[i] = ld_global_f32x4(start + 4 * i as u64 * width + place);
            i += 1;
        }
        let (mut out, mut j) = ([0.0; 4], 0);
        while j < 4 {
            let (mut sum, mut i) = (0.0, 0);
            while i < N {
                sum = fma(weights[i], x[i][j], sum);
                i += 1;
            }
            out[j] = sum;
            j += 1;
        }
        st_global_f32x4(args.out + 4 * u64::from(row) * width + place, out);
        column += 4 * args.parts * HYPER_READ_THREADS;
    }
}

/// Makes a row's weights of the logits of the first lanes.
#[inline(always)]
unsafe fn weigh(args: &HyperArgs, row: u32, logit: f32) {
    let weights = args.weights + 4 * u64::from(row) * u64::from(args.outputs);
    let gate = sigmoid(logit);
    if lane() < args.outputs.min(2 * HYPER) {
        let weight = if lane() < HYPER { gate + args.eps } else { 2.0 * gate };
        st_global_f32(weights + 4 * u64::from(lane()), weight);
    }
    if args.outputs == HYPER {
        return;
    }
    // Every lane has all of the mixing matrix.
    let (mut mix, mut i) = ([[0.0; N]; N], 0);
    while i < N {
        let mut j = 0;
        while j < N {
            mix[i][j] = of_lane(logit, HYPER * (2 + i as u32) + j as u32);
            j += 1;
        }
        mix[i] = softmax(mix[i], args.eps);
        i += 1;
    }
    let (rows, columns) = sinkhorn(&mix, args.eps, args.rounds);
    if lane() == 0 {
        let mut i = 0;
        while i < N {
            let (mut out, mut j) = ([0.0; N], 0);
            while j < N {
                out[j] = rows[i] * mix[i][j] * columns[j];
                j += 1;
            }
            st_global_f32x4(weights + 4 * u64::from(HYPER * (2 + i as u32)), out);
            i += 1;
        }
    }
}

/// Plus `eps`.
#[inline(always)]
fn softmax(mut row: [f32; N], eps: f32) -> [f32; N] {
    let (mut most, mut sum, mut j) = (row[0], 0.0, 1);
    while j < N {
        most = if row[j] > most { row[j] } else { most };
        j += 1;
    }
    j = 0;
    while j < N {
        row[j] = exp(row[j] - most);
        sum += row[j];
        j += 1;
    }
    j = 0;
    let inverse = 1.0 / sum;
    while j < N {
        row[j] = fma(row[j], inverse, eps);
        j += 1;
    }
    row
}

/// The factors of rows and of columns after some rounds, the first of which is of columns only.
#[inline(always)]
fn sinkhorn(mix: &[[f32; N]; N], eps: f32, rounds: u32) -> ([f32; N], [f32; N]) {
    let (mut rows, mut columns, mut round) = ([1.0; N], [1.0; N], 0);
    while round < rounds {
        let mut i = 0;
        while i < N && round > 0 {
            rows[i] /= fma(rows[i], dot(mix[i], columns), eps);
            i += 1;
        }
        let mut j = 0;
        while j < N {
            let sum = dot([mix[0][j], mix[1][j], mix[2][j], mix[3][j]], rows);
            columns[j] /= fma(columns[j], sum, eps);
            j += 1;
        }
        round += 1;
    }
    (rows, columns)
}
