//! Streams that are normalised each by itself and read through gates.

use super::super::abi::streams::{STREAMS, SUMS, StreamMeanArgs, StreamNormArgs};
use super::super::fold::{block_sum, share_sums, warp_sums};
use super::super::math::sigmoid;
use super::super::rounding::{load8, scaled};
use super::super::simt::{
    await_predecessors, barrier, block, divide, fma, lane, ld_global_f32, ld_global_f32x4, ld_shared_f32,
    prefetch, release_successor, shared_base, sqrt, st_global_f32, st_global_f32x4, st_shared_f32, thread,
    threads, warp, warps,
};

const MOST: usize = STREAMS as usize;
const ROOM: usize = SUMS as usize;

#[inline(always)]
unsafe fn store8(at: u64, [a, b, c, d, e, f, g, h]: [f32; 8]) {
    st_global_f32x4(at, [a, b, c, d]);
    st_global_f32x4(at + 16, [e, f, g, h]);
}

/// Stream `block() % streams` of row `block() / streams`: adds to it, normalises it, and sums up its products with every row of the
/// matrix.
///
/// # Safety
/// The contract of `StreamNorm`: buffers of the lengths in [`StreamNormArgs`], aligned to 16 bytes; whole warps, at most 16 of them, and
/// [`NORM_BYTES`](super::super::abi::streams::NORM_BYTES) of shared memory.
#[inline(always)]
pub(crate) unsafe fn stream_norm(args: StreamNormArgs) {
    let StreamNormArgs { width, streams, .. } = args;
    let (row, stream) = divide(block(), streams);
    let part = u64::from(row) * u64::from(streams) + u64::from(stream);
    let own = 8 * thread();
    // Of a row of the matrix: the columns of this stream.
    let column = |output: u32, at: u32| {
        args.matrix + 4 * (u64::from(output * streams + stream) * u64::from(width) + u64::from(at))
    };
    if args.matrix != 0 && own < width && thread().is_multiple_of(4) {
        let mut output = 0;
        while output < streams {
            prefetch(column(output, own));
            output += 1;
        }
    }
    await_predecessors();
    release_successor();
    let x = args.x + 4 * part * u64::from(width);
    let mut weight = 0.0;
    if args.y != 0 {
        weight = 2.0 * sigmoid(ld_global_f32(args.weights + 4 * part));
    }
    let (mut first, mut square, mut at) = ([0.0; 8], 0.0, own);
    while at < width {
        let place = 4 * u64::from(at);
        let mut values = load8(x + place);
        if args.y != 0 {
            let y = load8(args.y + 4 * u64::from(row) * u64::from(width) + place);
            let mut i = 0;
            while i < 8 {
                values[i] = fma(weight, y[i], values[i]);
                i += 1;
            }
            store8(x + place, values);
        }
        let mut i = 0;
        while i < 8 {
            square = fma(values[i], values[i], square);
            i += 1;
        }
        if at == own {
            first = values;
        }
        at += 8 * threads();
    }
    if args.out == 0 {
        return;
    }
    let (squares, products) = (shared_base(), shared_base() + 4 * 16);
    share_sums([square], squares);
    let inverse = 1.0 / sqrt(block_sum::<1>(squares, 0) / width as f32 + args.eps);
    let (gain, out) = (args.gain + 4 * u64::from(stream * width), args.out + 4 * part * u64::from(width));
    let (mut sums, mut at) = ([0.0; ROOM], own);
    while at < width {
        let place = 4 * u64::from(at);
        let values = if at == own { first } else { load8(x + place) };
        let normed = scaled(values, inverse * args.factor, load8(gain + place));
        store8(out + place, normed);
        if args.matrix != 0 {
            let mut output = 0;
            while output < MOST {
                if (output as u32) < streams {
                    let (weights, mut i) = (load8(column(output as u32, at)), 0);
                    while i < 8 {
                        sums[output] = fma(normed[i], weights[i], sums[output]);
                        i += 1;
                    }
                }
                output += 1;
            }
        }
        at += 8 * threads();
    }
    if args.matrix == 0 {
        return;
    }
    let sum = warp_sums(sums);
    if lane() < SUMS {
        st_shared_f32(products + 4 * (SUMS * warp() + lane()), sum);
    }
    barrier();
    if thread() < streams {
        let (mut total, mut other) = (0.0, 0);
        while other < warps() {
            total += ld_shared_f32(products + 4 * (SUMS * other + thread()));
            other += 1;
        }
        st_global_f32(args.sums + 4 * (u64::from(SUMS) * part + u64::from(thread())), total);
    }
}

/// Streams whose values are on their way at once.
const BATCH: usize = 4;

/// Four columns of a row: the sum of what gates let through of all streams, or their mean. The first threads also add up what
/// [`stream_norm`] left of its products.
///
/// # Safety
/// The contract of `GatedMean` or `StreamMean`: buffers of the lengths in [`StreamMeanArgs`], aligned to 16 bytes; a thread for every four
/// values, and for every stream of a row.
#[inline(always)]
pub(crate) unsafe fn mean<const GATED: bool>(args: StreamMeanArgs) {
    await_predecessors();
    release_successor();
    let StreamMeanArgs { quads, streams, rows, .. } = args;
    let at = block() * threads() + thread();
    if GATED && args.sums != 0 && at < rows * streams {
        let (row, output) = divide(at, streams);
        let (mut sum, mut stream) = (0.0, 0);
        while stream < streams {
            sum += ld_global_f32(args.sums + 4 * u64::from((row * streams + stream) * SUMS + output));
            stream += 1;
        }
        st_global_f32(args.weights + 4 * u64::from(at), sum);
    }
    if at >= rows * quads {
        return;
    }
    let (row, quad) = divide(at, quads);
    let (mut out, mut stream) = ([0.0; 4], 0);
    while stream < streams {
        let (mut x, mut gate, mut i) = ([[0.0; 4]; BATCH], [[0.0; 4]; BATCH], 0);
        while i < BATCH {
            if stream + (i as u32) < streams {
                let row = u64::from(row * streams + stream + i as u32);
                let place = 16 * (row * u64::from(quads) + u64::from(quad));
                x[i] = ld_global_f32x4(args.x + place);
                if GATED {
                    gate[i] = ld_global_f32x4(args.gate + place);
                }
            }
            i += 1;
        }
        let mut i = 0;
        while i < BATCH {
            let mut j = 0;
            while j < 4 && stream + (i as u32) < streams {
                out[j] = if GATED {
                    fma(x[i][j], sigmoid(gate[i][j]), out[j])
                } else if stream == 0 && i == 0 {
                    x[i][j]
                } else {
                    out[j] + x[i][j]
                };
                j += 1;
            }
            i += 1;
        }
        stream += BATCH as u32;
    }
    if !GATED {
        let count = streams as f32;
        out = [out[0] / count, out[1] / count, out[2] / count, out[3] / count];
    }
    let at = u64::from(row) * u64::from(args.out_quads) + u64::from(quad);
    st_global_f32x4(args.out + 16 * at, out);
}
