//! The second half: `out[token] (+)= sum over slots of weight * down_e hidden[pair]`.
//!
//! A block takes rows of tiles for all experts, one after the other, and so has all that a token's sum needs.

use super::super::abi::few::{DownArgs, Stack, down_places};
use super::super::abi::rounded::Layout;
use super::super::groups::Groups;
use super::super::rounded::{Rows, Source, columns};
use super::super::simt::{
    await_predecessors, barrier, block, blocks, divide, fma, lane, ld_global_f32, ld_shared_f32,
    release_successor, shared_base, st_global_f32, st_shared_f32, thread, threads, uniform_warp, warps,
};
use super::super::stages::{Ring, Stage, Supply};
use super::super::tiles::{load, multiply};
use super::{Sums, share, table};

/// A warp's turns: items `warp, warp + warps ..` of every row of tiles, the tiles of a row of group after group.
#[derive(Clone, Copy)]
struct Turns<'a> {
    args: &'a DownArgs,
    groups: Groups,
    count: u32,
    across: u32,
    /// The warp's first place in a row of tiles, and the one it is at.
    start: (u32, u32),
    y: u32,
    end: u32,
    group: u32,
    block: u32,
}

impl Turns<'_> {
    #[inline(always)]
    fn step(&mut self) {
        self.block += warps();
        while self.block >= self.across {
            self.block -= self.across;
            self.group += 1;
        }
    }

    #[inline(always)]
    fn next_row(&mut self) {
        self.y += 1;
        (self.group, self.block) = self.start;
    }
}

impl Supply for Turns<'_> {
    #[inline(always)]
    unsafe fn next(&mut self, stage: Stage) {
        if self.y < self.end && self.group < self.count {
            let Stack { weight, stride, tile_bytes, .. } = self.args.down;
            let expert = u64::from(self.groups.expert(self.group));
            let tile = u64::from(self.y * self.across + self.block) * u64::from(tile_bytes);
            stage.copy([weight + expert * stride + tile], 0, tile_bytes);
            self.step();
            if self.group >= self.count {
                self.next_row();
            }
        }
    }
}

/// The kernel.
///
/// # Safety
/// The contract of `FeedForward::launches`: buffers of the lengths in [`DownArgs`], hidden rows aligned to 16 bytes, tiles of a format
/// with as many scales, 1 to 8 tokens of 128 pairs at most, shared memory of [`down_places`]. The launch before it is the first
/// half, with the same routes: they are read before that has ended.
#[inline(always)]
pub(crate) unsafe fn down(args: DownArgs) {
    let warp = uniform_warp();
    let DownArgs { hidden, cols, tokens, scales, .. } = args;
    let pairs = tokens * args.routes.used;
    let layout = Layout { blocks: cols.div_ceil(256), scales, rows: pairs };
    let (at, places) = (shared_base(), down_places(layout));
    let groups = table(Groups::ask(&args.routes, tokens), &args.routes, tokens, at);
    let (y, more) = share(args.down.rows.div_ceil(16), block(), blocks());
    let (across, start) = (layout.blocks, divide(warp, layout.blocks));
    let count = groups.count();
    let mut turns =
        Turns { args: &args, groups, count, across, start, y, end: y + more, group: start.0, block: start.1 };
    let mut supply = turns;
    let mut ring = Ring::start(at + places.bytes, warp, args.stage_bytes, args.stages, &mut supply);
    let source = Source { x: hidden, gain: 0, up: 0, act: 0, eps: 0.0, cols };
    let rows = Rows { source, layout, at: at + places.rows, squares: 0 };
    await_predecessors();
    release_successor();
    let values = rows.first_values(pairs);
    rows.fill(pairs, (values, [0.0; 8]), &args.rounded);

    let mut results = at + places.results;
    while turns.y < turns.end {
        let y = turns.y;
        let target = |i: u32| {
            let (token, row) = (i / 16, 16 * y + i % 16);
            let to = args.out + 4 * (u64::from(token) * u64::from(args.down.rows) + u64::from(row));
            (token, row < args.down.rows && token < tokens, to)
        };
        // What the first sums are added to, loaded long before they are there.
        let (_, exists, to) = target(thread());
        let old = if exists && args.replace == 0 { ld_global_f32(to) } else { 0.0 };
        // Sums of pairs, whichever group they are in: `[blocks][pairs][16]`.
        let sums = Sums { at: results, tokens: pairs };
        while turns.group < count {
            let raw = load(args.down.format, ring.take());
            ring.give_back(&mut supply);
            let group = groups.get(turns.group);
            let t = 2 * (lane() % 4);
            let results = [group.member(t), group.member(t + 1)];
            let x = columns(layout, rows.at, group.member(lane() / 4), results).of_block(turns.block);
            sums.put_members(turns.block, &group, multiply(args.down.format, scales, &raw, x));
            turns.step();
        }
        barrier();
        // The sum of every pair's blocks takes the place of the first of them.
        let mut i = thread();
        while i < 16 * pairs {
            let sum = sums.of_row(0, (1, across), i / 16, i % 16);
            st_shared_f32(results + 4 * i, sum);
            i += threads();
        }
        barrier();
        let mut i = thread();
        while i < 16 * tokens {
            let (token, exists, to) = target(i);
            if exists {
                let old = if i == thread() || args.replace != 0 { old } else { ld_global_f32(to) };
                let (mut sum, mut slot) = (0.0, 0);
                while slot < groups.used() {
                    let pair = token * groups.used() + slot;
                    let value = ld_shared_f32(results + 4 * (16 * pair + i % 16));
                    let (chosen, weight) = groups.weight(pair);
                    sum = if chosen { fma(value, weight, sum) } else { sum };
                    slot += 1;
                }
                st_global_f32(to, old + sum);
            }
            i += threads();
        }
        results =
            if results == at + places.results { results + places.round_bytes } else { at + places.results };
        turns.next_row();
    }
}
