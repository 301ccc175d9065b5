//! Up to 32 rows in one launch.
//!
//! A block takes a few experts and a few rows; the last blocks of the grid also choose. They wait for the keys of all
//! logits, which are 0 until their blocks have written them, and clear them for the next launch: one trip through the
//! second-level cache, where a ticket would take three. Blocks start in the order of their numbers, so that whoever is
//! waited for runs already.

use super::super::abi::route::{RouteArgs, SLAB, partials, stride};
use super::super::math::sigmoid;
use super::super::simt::{
    await_predecessors, barrier, block, blocks, divide, fma, lane, ld_global_f32x4, ld_shared_f32,
    release_successor, shared_base, shfl_xor_f32, st_global_f32, st_global_f32x4, st_relaxed_u32,
    st_shared_f32, thread, threads, warp, warps,
};
use super::choose::choose;
use super::keys::key;
use super::sums::{LEN, ascending, chain, chain_of, column, fold, inverse, join, values, words};

/// Rows whose values are loaded together.
const ROWS: usize = 4;

/// The experts of `args.rows` rows, `E` experts and `args.share` rows a block. `RAW`: of the rows as they are, and none are written.
///
/// # Safety
/// The contract of `Route`: buffers of the lengths in [`RouteArgs`], aligned to 16 bytes; `cols` is a multiple of 4; blocks
/// for every group of experts and of rows, `share * E` at most 32; shared memory of [`partials`] floats for the sums of a
/// block's logits and squares, and one for each of its rows.
#[inline(always)]
pub(crate) unsafe fn route<const E: usize, const RAW: bool>(args: RouteArgs) {
    let (cols, experts) = (args.cols, E as u32);
    let groups = args.count.div_ceil(experts);
    let (part, group) = divide(block(), groups);
    let (first_row, first_expert) = (part * args.share, group * experts);
    let rows = (args.rows - first_row).min(args.share);
    let slabs = cols.div_ceil(SLAB);
    let pitch = partials(slabs);
    let scratch = shared_base();

    let mut first = 0;
    let mut words = experts_of::<E>(&args, first_expert, thread());
    let mut gain = if RAW { [1.0; LEN] } else { chain_of(args.gain, thread(), cols) };
    await_predecessors();
    release_successor();
    loop {
        let matrix = values_of(args.format, words);
        let mut row = 0;
        while row < rows {
            let sums = pass::<E, RAW>(&args, first_row + row, rows - row, first + thread(), &matrix, gain);
            let slab = (first + thread()) / 8;
            let mut i = 0;
            while i < 3 {
                let item = 8 * i as u32 + thread() % 8;
                if i < (ROWS * (E + 1)).div_ceil(8) && item < ROWS as u32 * (experts + 1) {
                    let item = row * (experts + 1) + item;
                    if slab < slabs && item < rows * (experts + 1) {
                        st_shared_f32(scratch + 4 * (item * pitch + slab), sums[i]);
                    }
                }
                i += 1;
            }
            row += ROWS as u32;
        }
        first += threads();
        if first >= 8 * slabs {
            break;
        }
        words = experts_of::<E>(&args, first_expert, first + thread());
        if !RAW {
            gain = chain_of(args.gain, first + thread(), cols);
        }
    }
    barrier();

    let inverses = scratch + 4 * args.share * (experts + 1) * pitch;
    if thread() < rows * experts {
        let (row, expert) = (thread() / experts, thread() % experts);
        let item = |item: u32| ascending(scratch + 4 * (row * (experts + 1) + item) * pitch, slabs);
        let inverse = if RAW { 1.0 } else { inverse(item(experts), cols, args.eps) };
        let product = item(expert) * inverse;
        if first_expert + expert < args.count {
            let at = (first_row + row) * stride(args.count) + first_expert + expert;
            st_relaxed_u32(args.keys + 4 * u64::from(at), key(product));
        }
        if expert == 0 {
            st_shared_f32(inverses + 4 * row, inverse);
        }
    }
    if group < rows && (!RAW || args.gate != 0) {
        barrier();
        let mut row = group;
        while row < rows {
            let sums = inverses + 4 * args.share;
            normed::<RAW>(&args, first_row + row, ld_shared_f32(inverses + 4 * row), sums, !RAW);
            row += groups;
        }
    }
    if block() + args.choosers >= blocks() {
        let mut row = (block() + args.choosers - blocks()) * warps() + warp();
        while row < args.rows {
            choose(&args, row);
            row += args.choosers * warps();
        }
    }
}

/// The words of a chain of each of `E` experts.
#[inline(always)]
unsafe fn experts_of<const E: usize>(args: &RouteArgs, first: u32, chain: u32) -> [[[u32; 4]; 2]; E] {
    let (mut out, mut e) = ([[[0; 4]; 2]; E], 0);
    while e < E {
        // The last group may have fewer: the last expert again, and nobody looks at it.
        let row = (first + e as u32).min(args.count - 1);
        let four = |at| words(args.router, args.format, row, at, args.cols);
        out[e] = [four(column(chain)), four(column(chain) + SLAB / 2)];
        e += 1;
    }
    out
}

/// Their values.
#[inline(always)]
fn values_of<const E: usize>(format: u32, words: [[[u32; 4]; 2]; E]) -> [[f32; LEN]; E] {
    let (mut out, mut e) = ([[0.0; LEN]; E], 0);
    while e < E {
        out[e] = join(values(format, words[e][0]), values(format, words[e][1]));
        e += 1;
    }
    out
}

/// Slabs of up to four rows: sum `8 i + lane % 8` in `i`, for each row its `E` products and its square.
#[inline(always)]
unsafe fn pass<const E: usize, const RAW: bool>(
    args: &RouteArgs,
    first: u32,
    rows: u32,
    at: u32,
    matrix: &[[f32; LEN]; E],
    gain: [f32; LEN],
) -> [f32; 3] {
    let mut x = [[0.0; LEN]; ROWS];
    let mut row = 0;
    while row < ROWS {
        if (row as u32) < rows {
            let start = args.x + 4 * u64::from(first + row as u32) * u64::from(args.cols);
            x[row] = chain_of(start, at, args.cols);
        }
        row += 1;
    }
    let mut sums = [0.0; 24];
    let mut row = 0;
    while row < ROWS {
        let (mut scaled, mut i) = ([0.0; LEN], 0);
        while i < LEN {
            scaled[i] = x[row][i] * gain[i];
            i += 1;
        }
        let mut e = 0;
        while e < E {
            sums[row * (E + 1) + e] = chain(scaled, matrix[e]);
            e += 1;
        }
        if !RAW {
            sums[row * (E + 1) + E] = chain(x[row], x[row]);
        }
        row += 1;
    }
    let (mut out, mut i) = ([0.0; 3], 0);
    while i < 3 {
        if i < (ROWS * (E + 1)).div_ceil(8) {
            let (mut eight, mut j) = ([0.0; 8], 0);
            while j < 8 {
                eight[j] = sums[8 * i + j];
                j += 1;
            }
            out[i] = fold(eight);
        }
        i += 1;
    }
    out
}

/// Writes row `row`, normalised or as it is, and its product with the gate, if there is one, through a sigmoid; `sums` are
/// [`GATE_BYTES`](super::super::abi::route::GATE_BYTES) of shared memory.
///
/// # Safety
/// The contract of [`route`]; every thread of the block gets here.
#[inline(always)]
pub(super) unsafe fn normed<const RAW: bool>(
    args: &RouteArgs,
    row: u32,
    inverse: f32,
    sums: u32,
    wanted: bool,
) {
    let start = 4 * u64::from(row) * u64::from(args.cols);
    let (mut at, mut sum) = (4 * thread(), 0.0);
    while at < args.cols {
        let place = 4 * u64::from(at);
        let x = ld_global_f32x4(args.x + start + place);
        let mut out = x;
        if !RAW {
            let (gain, mut i) = (ld_global_f32x4(args.gain + place), 0);
            while i < 4 {
                out[i] = x[i] * inverse * gain[i];
                i += 1;
            }
        }
        if wanted {
            st_global_f32x4(args.normed + start + place, out);
        }
        if args.gate != 0 {
            let (gate, mut i) = (ld_global_f32x4(args.gate + place), 0);
            while i < 4 {
                sum = fma(out[i], gate[i], sum);
                i += 1;
            }
        }
        at += 4 * threads();
    }
    if args.gate != 0 {
        let mut mask = 16;
        while mask > 0 {
            sum += shfl_xor_f32(sum, mask);
            mask /= 2;
        }
        if lane() == 0 {
            st_shared_f32(sums + 4 * warp(), sum);
        }
        barrier();
        if thread() == 0 {
            st_global_f32(args.gates + 4 * u64::from(row), sigmoid(ascending(sums, warps())));
        }
        barrier();
    }
}
