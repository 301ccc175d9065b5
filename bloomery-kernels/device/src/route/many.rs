//! Many rows: the norm, then the logits in tiles.

use super::super::abi::route::{RouteArgs, SLAB, stride};
use super::super::simt::{
    await_predecessors, barrier, block, divide, fma, ld_global_f32, ld_shared_u32x4, release_successor,
    shared_base, shfl_xor_f32, st_global_f32, st_global_u32, st_shared_f32, st_shared_u32x4, thread, threads,
};
use super::few::normed;
use super::keys::key;
use super::sums::{ascending, chain, chain_of, inverse, quad, values, words};

/// Floats from one row of a tile to the next: an odd number of 16 bytes.
const PITCH: u32 = SLAB + 4;
/// Rows of threads, and columns of them.
const SIDE: u32 = 16;

/// Row `block()` normalised, and its inverse norm in the place of its first weight.
///
/// # Safety
/// The contract of `Route`; a block for every row, and shared memory for a float of every slab.
#[inline(always)]
pub(crate) unsafe fn route_norm(args: RouteArgs) {
    await_predecessors();
    release_successor();
    let (row, cols) = (block(), args.cols);
    let start = 4 * u64::from(row) * u64::from(cols);
    let slabs = cols.div_ceil(SLAB);
    let mut first = 0;
    while first < 8 * slabs {
        let at = first + thread();
        let x = chain_of(args.x + start, at, cols);
        let mut square = chain(x, x);
        square += shfl_xor_f32(square, 1);
        square += shfl_xor_f32(square, 2);
        square += shfl_xor_f32(square, 4);
        if at.is_multiple_of(8) && at / 8 < slabs {
            st_shared_f32(shared_base() + at / 8 * 4, square);
        }
        first += threads();
    }
    barrier();
    let inverse = inverse(ascending(shared_base(), slabs), cols, args.eps);
    normed::<false>(&args, row, inverse, shared_base() + 16 * slabs.div_ceil(4), args.normed != 0);
    if thread() == 0 {
        st_global_f32(args.weights + 4 * u64::from(row * args.used), inverse);
    }
}

/// The product of row `block()` and the gate, of rows that are taken as they are.
///
/// # Safety
/// The contract of `Route`, with a gate; a block for every row, and [`GATE_BYTES`](super::super::abi::route::GATE_BYTES) of shared memory.
#[inline(always)]
pub(crate) unsafe fn route_gate(args: RouteArgs) {
    await_predecessors();
    release_successor();
    normed::<true>(&args, block(), 1.0, shared_base(), false);
}

/// Some of a slab of a tile on the way to shared memory.
#[derive(Clone, Copy)]
struct Slab<const M: usize> {
    x: [[f32; 4]; M],
    router: [[u32; 4]; M],
}

/// A tile of logits: `16 M` rows by `16 M` experts, `M` by `M` of them a thread. `PLAIN`: they are what is wanted, `[rows][count]`. `RAW`:
/// of the rows as they are.
///
/// # Safety
/// The contract of `Route`; [`route_norm`] has run, but for rows as they are; a block for every tile, 256 threads each, and shared memory for two slabs
/// of rows and experts.
#[inline(always)]
pub(crate) unsafe fn route_logits<const M: usize, const PLAIN: bool, const RAW: bool>(args: RouteArgs) {
    await_predecessors();
    release_successor();
    let side = SIDE * M as u32;
    let (tile, column) = divide(block(), args.count.div_ceil(side));
    let (first_row, first_expert) = (tile * side, column * side);
    let (x_bytes, slabs) = (4 * side * PITCH, args.cols.div_ceil(SLAB));
    let buffer = |slab: u32| shared_base() + slab % 2 * 2 * x_bytes;
    // One of 16 pieces of a row, of rows that are 16 apart.
    let (own_row, own_piece) = (thread() / SIDE, thread() % SIDE);
    let load = |slab: u32| {
        let at = slab * SLAB + 4 * own_piece;
        let gain = if RAW { [1.0; 4] } else { quad(args.gain, at, args.cols) };
        let (mut out, mut i) = (Slab::<M> { x: [[0.0; 4]; M], router: [[0; 4]; M] }, 0);
        while i < M {
            let row = (first_row + own_row + SIDE * i as u32).min(args.rows - 1);
            let expert = (first_expert + own_row + SIDE * i as u32).min(args.count - 1);
            out.x[i] = quad(args.x + 4 * u64::from(row) * u64::from(args.cols), at, args.cols);
            out.router[i] = words(args.router, args.format, expert, at, args.cols);
            i += 1;
        }
        (out, gain)
    };
    let store = |slab: u32, (next, gain): (Slab<M>, [f32; 4])| {
        let mut i = 0;
        while i < M {
            let at = buffer(slab) + 4 * ((own_row + SIDE * i as u32) * PITCH + 4 * own_piece);
            let (mut scaled, mut j) = ([0; 4], 0);
            while j < 4 {
                scaled[j] = (next.x[i][j] * gain[j]).to_bits();
                j += 1;
            }
            let router = values(args.format, next.router[i]);
            st_shared_u32x4(at, scaled);
            st_shared_u32x4(at + x_bytes, router.map(f32::to_bits));
            i += 1;
        }
    };
    store(0, load(0));
    barrier();
    let mut totals = [[0.0; M]; M];
    let mut slab = 0;
    while slab < slabs {
        let more = slab + 1 < slabs;
        let next = load(if more { slab + 1 } else { slab });
        let at = buffer(slab) + 4 * PITCH * own_row;
        let router = buffer(slab) + x_bytes + 4 * PITCH * own_piece;
        let four = |first: u32| {
            let two = |first: u32| sum(chains::<M>(at, router, first), chains::<M>(at, router, first + 1));
            sum(two(first), two(first + 2))
        };
        totals = sum(totals, sum(four(0), four(4)));
        if more {
            store(slab + 1, next);
        }
        barrier();
        slab += 1;
    }
    let mut i = 0;
    while i < M {
        let row = first_row + own_row + SIDE * i as u32;
        if row < args.rows {
            let inverse =
                if RAW { 1.0 } else { ld_global_f32(args.weights + 4 * u64::from(row * args.used)) };
            let mut j = 0;
            while j < M {
                let expert = first_expert + own_piece + SIDE * j as u32;
                if expert < args.count && PLAIN {
                    let at = u64::from(row) * u64::from(args.count) + u64::from(expert);
                    st_global_f32(args.keys + 4 * at, totals[i][j] * inverse);
                } else if expert < args.count {
                    let at = row * stride(args.count) + expert;
                    st_global_u32(args.keys + 4 * u64::from(at), key(totals[i][j] * inverse));
                }
                j += 1;
            }
        }
        i += 1;
    }
}

/// Chain `j` of the slab for all of a thread's logits.
#[inline(always)]
unsafe fn chains<const M: usize>(x: u32, router: u32, j: u32) -> [[f32; M]; M] {
    let mut out = [[0.0; M]; M];
    let mut half = 0;
    while half < 2 {
        let at = 4 * (SLAB / 2 * half + 4 * j);
        let (mut a, mut b, mut i) = ([[0.0; 4]; M], [[0.0; 4]; M], 0);
        while i < M {
            let rows = 4 * PITCH * SIDE * i as u32;
            a[i] = ld_shared_u32x4(x + rows + at).map(f32::from_bits);
            b[i] = ld_shared_u32x4(router + rows + at).map(f32::from_bits);
            i += 1;
        }
        let mut c = 0;
        while c < 4 {
            let mut i = 0;
            while i < M {
                let mut j = 0;
                while j < M {
                    out[i][j] = fma(a[i][c], b[j][c], out[i][j]);
                    j += 1;
                }
                i += 1;
            }
            c += 1;
        }
        half += 1;
    }
    out
}

#[inline(always)]
fn sum<const M: usize>(a: [[f32; M]; M], b: [[f32; M]; M]) -> [[f32; M]; M] {
    let (mut out, mut i) = ([[0.0; M]; M], 0);
    while i < M {
        let mut j = 0;
        while j < M {
            out[i][j] = a[i][j] + b[i][j];
            j += 1;
        }
        i += 1;
    }
    out
}
