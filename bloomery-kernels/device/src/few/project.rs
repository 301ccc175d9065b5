//! Several products of the same rows in one launch.
//!
//! Every block takes neighbouring rows of tiles, a *round* of them at a time; its warps take the round's tiles in turn, each with
//! the next tiles on their way, and leave what every tile adds to the sums in shared memory. After a barrier threads add that
//! up in the order of the tiles while the others begin the next round.

use super::super::abi::activation::SIGMOID;
use super::super::abi::few::{PARTS, Part, ProjectArgs, project_places};
use super::super::abi::rounded::Layout;
use super::super::rounded::{Rows, Source, columns};
use super::super::simt::{
    await_predecessors, barrier, block, blocks, divide, lane, ld_global_f32, release_successor, shared_base,
    st_global_f32, thread, threads, uniform_warp, warps,
};
use super::super::stages::{Ring, Stage, Supply};
use super::super::tiles::{load, multiply};
use super::{Sums, share};

/// The part that a row of tiles belongs to, and its number there.
#[inline(always)]
fn part_of(args: &ProjectArgs, tile: u32) -> (Part, u32) {
    let (mut part, mut p) = (args.parts[0], 1);
    while p < PARTS {
        let next = args.parts[p];
        if next.rows != 0 && tile >= next.before {
            part = next;
        }
        p += 1;
    }
    (part, tile - part.before)
}

/// A warp's turns: items `warp, warp + warps ..` of every round, an item being a tile.
#[derive(Clone, Copy)]
struct Turns<'a> {
    args: &'a ProjectArgs,
    /// Tiles of a row.
    across: u32,
    /// The round's first row of tiles, and where the block's end.
    first: u32,
    end: u32,
    /// The warp's first place in a round, and the one it is at.
    start: (u32, u32),
    row: u32,
    block: u32,
}

impl<'a> Turns<'a> {
    #[inline(always)]
    unsafe fn new(args: &'a ProjectArgs, across: u32, (first, end): (u32, u32), warp: u32) -> Self {
        let start = divide(warp, across);
        Self { args, across, first, end, start, row: start.0, block: start.1 }
    }

    /// Whether there is an item in this round.
    #[inline(always)]
    fn in_round(&self) -> bool {
        self.row < self.args.round && self.first + self.row < self.end
    }

    /// On to the next round.
    #[inline(always)]
    fn next_round(&mut self) {
        self.first += self.args.round;
        (self.row, self.block) = self.start;
    }

    #[inline(always)]
    fn step(&mut self) {
        self.block += warps();
        while self.block >= self.across {
            self.block -= self.across;
            self.row += 1;
        }
    }
}

impl Supply for Turns<'_> {
    #[inline(always)]
    unsafe fn next(&mut self, stage: Stage) {
        while self.first < self.end && !self.in_round() {
            self.next_round();
        }
        if self.first < self.end {
            let (part, y) = part_of(self.args, self.first + self.row);
            let at = part.weight + u64::from(y * self.across + self.block) * u64::from(part.tile_bytes);
            stage.copy([at], 0, part.tile_bytes);
            self.step();
        }
    }
}

/// The kernel.
///
/// # Safety
/// The contract of `Project::launches`: buffers of the lengths in [`ProjectArgs`], `x` and gains aligned to 16 bytes, tiles of formats
/// with as many scales, 1 to 8 tokens, shared memory of [`project_places`].
#[inline(always)]
pub(crate) unsafe fn project(args: ProjectArgs) {
    project_block(args, block(), blocks());
}

/// What block `block` of `blocks` does.
///
/// # Safety
/// As [`project`].
#[inline(always)]
pub(crate) unsafe fn project_block(args: ProjectArgs, block: u32, blocks: u32) {
    let warp = uniform_warp();
    let ProjectArgs { x, gain, gate, eps, cols, tokens, scales, round, .. } = args;
    let layout = Layout { blocks: cols.div_ceil(256), scales, rows: tokens };
    let (at, places) = (shared_base(), project_places(layout, round));
    let source = match gate {
        0 => Source { x, gain, up: 0, act: SIGMOID, limit: f32::INFINITY, eps, cols },
        gate => Source { x: gate, gain: 0, up: x, act: SIGMOID, limit: f32::INFINITY, eps, cols },
    };
    let rows = Rows { source, layout, at: at + places.rows, squares: at + places.squares };
    let (first, count) = share(args.tiles, block, blocks);
    let across = layout.blocks;
    let mut turns = Turns::new(&args, across, (first, first + count), warp);
    let mut supply = turns;
    let mut ring = Ring::start(at + places.bytes, warp, args.stage_bytes, args.stages, &mut supply);
    let gains = rows.first_gains();
    await_predecessors();
    release_successor();
    let values = rows.first_values(tokens);
    rows.fill(tokens, (values, gains), &args.rounded);

    let own = if lane() / 4 < tokens { lane() / 4 } else { 0 };
    let column = |i: u32| if 2 * (lane() % 4) + i < tokens { 2 * (lane() % 4) + i } else { 0 };
    let results = [column(0), column(1)];
    let x = columns(layout, rows.at, own, results);
    let mut odd = 0;
    while turns.first < turns.end {
        let results = Sums { at: at + places.results + odd * places.round_bytes, tokens };
        while turns.in_round() {
            let format = part_of(&args, turns.first + turns.row).0.format;
            let raw = load::<true>(format, ring.take());
            ring.give_back(&mut supply);
            results.put(
                turns.row * across + turns.block,
                multiply::<true>(format, scales, &raw, x.of_block(turns.block)),
            );
            turns.step();
        }
        barrier();
        let mut i = thread();
        while i < 16 * round * tokens {
            Target::of(&args, (turns.first, turns.end), i).write(results, across, i % 16);
            i += threads();
        }
        odd ^= 1;
        turns.next_round();
    }
}

/// Where a result goes.
struct Target {
    exists: bool,
    accumulate: bool,
    /// Of the round's rows of tiles.
    row: u32,
    token: u32,
    bias: u64,
    to: u64,
}

impl Target {
    /// Result `i` of the round that starts with row `first` of tiles: `[rows of tiles][tokens][16]`.
    #[inline(always)]
    unsafe fn of(args: &ProjectArgs, (first, end): (u32, u32), i: u32) -> Self {
        let (row, token) = if args.tokens == 1 { (i / 16, 0) } else { divide(i / 16, args.tokens) };
        let exists = first + row < end;
        let (part, y) = part_of(args, if exists { first + row } else { first });
        let r = 16 * y + i % 16;
        Self {
            exists: exists && r < part.rows,
            accumulate: part.accumulate != 0,
            row,
            token,
            bias: if part.bias == 0 { 0 } else { part.bias + 4 * u64::from(r) },
            to: part.out + 4 * (u64::from(token) * u64::from(part.rows) + u64::from(r)),
        }
    }

    /// Writes the sum over the row's tiles.
    #[inline(always)]
    unsafe fn write(&self, results: Sums, across: u32, r: u32) {
        if self.exists {
            // Loaded first: both take a while.
            let old = if self.accumulate { ld_global_f32(self.to) } else { 0.0 };
            let bias = if self.bias != 0 { ld_global_f32(self.bias) } else { 0.0 };
            let mut sum = results.of_row(self.row * across, (1, across), self.token, r);
            if self.bias != 0 {
                sum += bias;
            }
            st_global_f32(self.to, if self.accumulate { old + sum } else { sum });
        }
    }
}
