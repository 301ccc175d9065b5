//! Products of many rows: a block multiplies 128 rows of weights, 16 for each warp, with 64 rows of activations, which its warps
//! share; tiles and activations of the next block of columns come in while one is multiplied.
//!
//! Of experts, a block's rows of activations are those of one tile of pairs, gathered by number.

use super::super::abi::few::{PARTS, Part};
use super::super::abi::formats;
use super::super::abi::many::{COLUMNS, ProductArgs, ROWS, stage_bytes, stage_layout};
use super::super::abi::rounded::{Layout, SUMS};
use super::super::rounded::columns;
use super::super::simt::{
    await_predecessors, barrier, block, copy_async4, copy_async16, copy_commit, copy_wait, divide, lane,
    ld_global_f32, ld_global_u32, ld_shared_u32, release_successor, shared_base, st_global_f32,
    st_shared_u32, thread, threads, uniform_warp,
};
use super::super::tiles::{Columns, IQ4XS, Q3K, Q4K, Q5_1, Q5K, Q6K, Q8_0, Tile, Unpacked, product};

/// Operands of 8 rows of activations.
const OPERANDS: usize = COLUMNS as usize / 8;

/// What a block works on.
#[derive(Clone, Copy)]
struct Work {
    part: Part,
    /// Of the part, in tiles.
    y: u32,
    /// This warp's tiles, block of columns after block.
    weight: u64,
    /// Rows of activations.
    rows: u32,
}

/// Where stages are, and what goes in.
#[derive(Clone, Copy)]
struct Stages {
    at: u32,
    bytes: u32,
    /// The numbers of the pairs, then those of their rows of activations.
    numbers: u32,
}

impl Stages {
    /// Starts the copies of block `k` of columns to stage `stage`, if there is such a block.
    #[inline(always)]
    unsafe fn fetch(self, args: &ProductArgs, work: &Work, k: u32, stage: u32, warp: u32) {
        if k >= args.blocks {
            copy_commit();
            return;
        }
        let (layout, to) = (stage_layout(args.scales, args.columns), self.at + stage * self.bytes);
        let source = |row: u32| {
            let number = ld_shared_u32(self.numbers + 4 * COLUMNS + 4 * row);
            u64::from(number * args.blocks + k)
        };
        let mut at = thread();
        while at < 16 * work.rows {
            let (row, piece) = (at / 16, at % 16);
            let from = args.x.values + 256 * source(row) + 16 * u64::from(piece);
            copy_async16(to + row * layout.values_stride() + 16 * piece, from);
            at += threads();
        }
        at = thread();
        if args.scales == 1 {
            while at < 2 * work.rows {
                let (row, piece) = (at / 2, at % 2);
                let from = args.x.sums + u64::from(SUMS) * source(row) + 16 * u64::from(piece);
                copy_async16(to + layout.sums() + row * layout.sums_stride() + 16 * piece, from);
                at += threads();
            }
            at = thread();
        }
        while at < args.scales * work.rows {
            let (row, scale) = if args.scales == 1 { (at, 0) } else { (at / 8, at % 8) };
            let from = args.x.scales + 4 * (u64::from(args.scales) * source(row) + u64::from(scale));
            copy_async4(to + layout.scales_at() + 4 * at, from);
            at += threads();
        }
        if work.weight != 0 {
            let tile_bytes = work.part.tile_bytes;
            let from = work.weight + u64::from(k) * u64::from(tile_bytes);
            let to = to + layout.bytes() + warp * args.tile_bytes;
            let mut at = 16 * lane();
            while at < tile_bytes {
                copy_async16(to + at, from + u64::from(at));
                at += 512;
            }
        }
        copy_commit();
    }
}

/// Adds the tile's products with rows `8 n ..` of activations, if there are any; `x` is that of the first rows.
#[inline(always)]
unsafe fn add<F: Tile>(
    tile: &Unpacked,
    x: Columns,
    layout: Layout,
    rows: u32,
    sums: &mut [[f32; 4]; OPERANDS],
    n: usize,
) {
    let first = 8 * n as u32;
    if first < rows {
        let x = Columns {
            values: x.values + first * layout.values_stride(),
            sums: x.sums + first * layout.sums_stride(),
            scales: x.scales.map(|scale| scale + first * layout.scales_stride()),
            ..x
        };
        let more = product::<F>(tile, x);
        let mut i = 0;
        while i < 4 {
            sums[n][i] += more[i];
            i += 1;
        }
    }
}

/// The sums of a block for one format.
#[inline(always)]
unsafe fn sums<F: Tile>(args: &ProductArgs, work: &Work, stages: Stages, warp: u32) -> [[f32; 4]; OPERANDS] {
    let layout = stage_layout(args.scales, args.columns);
    let mut sums = [[0.0; 4]; OPERANDS];
    let (mut k, mut stage) = (0, 0);
    while k < args.blocks {
        // All but the blocks after this one have come in.
        copy_wait(args.stages - 2);
        barrier();
        // Into the stage that was multiplied before.
        let free = if stage == 0 { args.stages - 1 } else { stage - 1 };
        stages.fetch(args, work, k + args.stages - 1, free, warp);
        if work.weight != 0 {
            let at = stages.at + stage * stages.bytes;
            let tile = F::unpack(&F::load(at + layout.bytes() + warp * args.tile_bytes));
            let x = columns(layout, at, lane() / 4, [2 * (lane() % 4), 2 * (lane() % 4) + 1]);
            // Written out: the sums must stay in registers, and the compiler does not unroll a loop as long as this.
            add::<F>(&tile, x, layout, work.rows, &mut sums, 0);
            add::<F>(&tile, x, layout, work.rows, &mut sums, 1);
            add::<F>(&tile, x, layout, work.rows, &mut sums, 2);
            add::<F>(&tile, x, layout, work.rows, &mut sums, 3);
            add::<F>(&tile, x, layout, work.rows, &mut sums, 4);
            add::<F>(&tile, x, layout, work.rows, &mut sums, 5);
            add::<F>(&tile, x, layout, work.rows, &mut sums, 6);
            add::<F>(&tile, x, layout, work.rows, &mut sums, 7);
        }
        stage = if stage + 1 == args.stages { 0 } else { stage + 1 };
        k += 1;
    }
    sums
}

/// Writes a block's sums.
#[inline(always)]
unsafe fn deliver(work: &Work, sums: &[[f32; 4]; OPERANDS], numbers: u32) {
    let (g, t) = (lane() / 4, lane() % 4);
    let mut n = 0;
    while n < OPERANDS {
        let mut i = 0;
        while i < 4 {
            let (row, column) = (16 * work.y + g + 8 * (i / 2), 8 * n as u32 + 2 * t + i % 2);
            if row < work.part.rows && column < work.rows {
                let number = ld_shared_u32(numbers + 4 * column);
                let to = work.part.out + 4 * (u64::from(number) * u64::from(work.part.rows) + u64::from(row));
                let mut sum = sums[n][i as usize];
                if work.part.bias != 0 {
                    sum += ld_global_f32(work.part.bias + 4 * u64::from(row));
                }
                st_global_f32(to, if work.part.accumulate != 0 { ld_global_f32(to) + sum } else { sum });
            }
            i += 1;
        }
        n += 1;
    }
}

/// The kernel.
///
/// # Safety
/// The contract of the launchers in `many`: buffers of the lengths in [`ProductArgs`], tiles of formats with as many scales, shared
/// memory of `products_bytes`, a block for every 128 rows of the parts and every tile that there may be.
#[inline(always)]
pub(crate) unsafe fn products(args: ProductArgs) {
    let warp = uniform_warp();
    await_predecessors();
    release_successor();
    let (tile, down) = divide(block(), args.down);
    let columns = args.columns;
    let (mut expert, mut first, mut rows) = (0, columns * tile, args.rows.wrapping_sub(columns * tile));
    if args.tiles != 0 {
        if tile >= ld_global_u32(args.tile_count) {
            return;
        }
        let at = args.tiles + 16 * u64::from(tile);
        (expert, first, rows) = (ld_global_u32(at), ld_global_u32(at + 4), ld_global_u32(at + 8));
        if args.seats != 0 {
            expert = ld_global_u32(args.seats + 4 * u64::from(expert));
        }
    }
    let rows = if rows < columns { rows } else { columns };
    let (mut part, mut stride, mut p) = (args.parts[0], args.strides[0], 1);
    while p < PARTS {
        if args.parts[p].rows != 0 && down >= args.parts[p].before {
            (part, stride) = (args.parts[p], args.strides[p]);
        }
        p += 1;
    }
    let y = ROWS / 16 * (down - part.before) + warp;
    let exists = 16 * y < part.rows && expert < args.matrices;
    let tiles = u64::from(y) * u64::from(args.blocks) * u64::from(part.tile_bytes);
    let weight = if exists { part.weight + u64::from(expert) * stride + tiles } else { 0 };
    let work = Work { part, y, weight, rows };

    let numbers = shared_base();
    let stages = Stages {
        at: numbers + 8 * COLUMNS,
        bytes: stage_bytes(args.scales, args.columns, args.tile_bytes),
        numbers,
    };
    if thread() < COLUMNS {
        // Rows past the end are the first again: they are read, and left out.
        let place = if thread() < rows { thread() } else { 0 };
        let number = if args.tiles == 0 {
            first + place
        } else {
            ld_global_u32(args.order + 4 * u64::from(first + place))
        };
        st_shared_u32(numbers + 4 * thread(), number);
        st_shared_u32(numbers + 4 * COLUMNS + 4 * thread(), divide(number, args.used).0);
    }
    barrier();
    // Eight rows are multiplied at a time.
    let padded = Work { rows: (rows + 7) & !7, ..work };
    let mut k = 0;
    while k + 1 < args.stages {
        stages.fetch(&args, &padded, k, k, warp);
        k += 1;
    }
    let sums = match part.format {
        formats::Q8_0 => sums::<Q8_0>(&args, &padded, stages, warp),
        formats::Q5_1 => sums::<Q5_1>(&args, &padded, stages, warp),
        formats::Q5_K => sums::<Q5K>(&args, &padded, stages, warp),
        formats::Q6_K => sums::<Q6K>(&args, &padded, stages, warp),
        formats::Q3_K => sums::<Q3K>(&args, &padded, stages, warp),
        formats::IQ4_XS => sums::<IQ4XS>(&args, &padded, stages, warp),
        _ => sums::<Q4K>(&args, &padded, stages, warp),
    };
    deliver(&work, &sums, numbers);
}
