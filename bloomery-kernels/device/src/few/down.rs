//! The second half: `out[token] (+)= sum over slots of weight * down_e hidden[pair]`.
//!
//! A block takes rows of tiles for all experts, one after the other, and so has all that a token's sum needs. A network beside the
//! experts comes behind them, as one more whose members are all tokens; what it gives is added first, as a launch before this one would.

use super::super::abi::few::{Down, DownArgs, Stack, down_places};
use super::super::abi::rounded::Layout;
use super::super::groups::{Group, Groups};
use super::super::rounded::{Rows, Source, columns};
use super::super::simt::{
    await_predecessors, barrier, block, blocks, fma, lane, ld_global_f32, ld_shared_f32, release_successor,
    shared_base, st_global_f32, st_shared_f32, thread, threads, uniform_warp, warps,
};
use super::super::stages::{Ring, Stage, Supply};
use super::super::tiles::{load, multiply};
use super::{Sums, share, table};

/// A warp's turns: items `warp, warp + warps ..` of every row of tiles, the tiles of a row of group after group.
#[derive(Clone, Copy)]
struct Turns<'a, const BESIDE: bool> {
    args: &'a DownArgs,
    groups: Groups,
    /// Groups of experts; the one behind them, if there is one, is the network beside them.
    count: u32,
    all: u32,
    /// Tiles of a row of an expert, and of that network.
    across: [u32; 2],
    warp: u32,
    y: u32,
    end: u32,
    group: u32,
    block: u32,
}

impl<const BESIDE: bool> Turns<'_, BESIDE> {
    /// The network of the group.
    #[inline(always)]
    fn network(&self) -> &Down {
        &self.args.networks[(BESIDE && self.group >= self.count) as usize]
    }

    /// Finds the group that the item is in.
    #[inline(always)]
    fn settle(&mut self) {
        while self.group < self.count && self.block >= self.across[0] {
            self.block -= self.across[0];
            self.group += 1;
        }
        if BESIDE && self.group >= self.count && (self.all == self.count || self.block >= self.across[1]) {
            self.group = self.all;
        }
    }

    #[inline(always)]
    fn step(&mut self) {
        self.block += warps();
        self.settle();
    }

    #[inline(always)]
    fn start_row(&mut self) {
        (self.group, self.block) = (0, self.warp);
        self.settle();
    }
}

impl<const BESIDE: bool> Supply for Turns<'_, BESIDE> {
    #[inline(always)]
    unsafe fn next(&mut self, stage: Stage) {
        if self.y < self.end && self.group < self.all {
            let Stack { weight, stride, tile_bytes, .. } = self.network().down;
            let (expert, across) = if !BESIDE || self.group < self.count {
                (self.groups.expert(self.group), self.across[0])
            } else {
                (0, self.across[1])
            };
            let tile = u64::from(self.y * across + self.block) * u64::from(tile_bytes);
            stage.copy([weight + u64::from(expert) * stride + tile], 0, tile_bytes);
            self.step();
            if self.group >= self.all {
                self.y += 1;
                self.start_row();
            }
        }
    }
}

/// How the rows of a network lie in shared memory; none without one.
#[inline(always)]
fn layout(network: &Down, rows: u32) -> Layout {
    let Down { cols, scales, down, .. } = *network;
    Layout { blocks: cols.div_ceil(256), scales, rows: if down.rows == 0 { 0 } else { rows } }
}

/// The kernel, with a network beside the experts or without.
///
/// # Safety
/// The contract of `FeedForward::launches`: buffers of the lengths in [`DownArgs`], hidden rows aligned to 16 bytes, tiles of a format
/// with as many scales, 1 to 8 tokens of 128 pairs at most, shared memory of [`down_places`]. The launch before it is the first
/// half, with the same routes: they are read before that has ended. Without a network beside the experts, its `cols` are 0, too.
#[inline(always)]
pub(crate) unsafe fn down<const BESIDE: bool>(args: DownArgs) {
    let warp = uniform_warp();
    let tokens = args.tokens;
    let [experts, beside] = &args.networks;
    let pairs = tokens * experts.routes.used;
    let layouts = [layout(experts, pairs), layout(beside, tokens)];
    let (at, places) = (shared_base(), down_places(layouts[0], layouts[1]));
    let groups = table(Groups::ask(&experts.routes, tokens), &experts.routes, tokens, at);
    let (y, more) = share(experts.down.rows.div_ceil(16), block(), blocks());
    let across = [layouts[0].blocks, layouts[1].blocks];
    let count = groups.count();
    let all = count + BESIDE as u32;
    let mut turns = Turns::<BESIDE> {
        args: &args,
        groups,
        count,
        all,
        across,
        warp,
        y,
        end: y + more,
        group: 0,
        block: 0,
    };
    turns.start_row();
    let mut supply = turns;
    let mut ring = Ring::start(at + places.bytes, warp, args.stage_bytes, args.stages, &mut supply);
    let token = thread() / 16;
    // What the network beside the experts counts for.
    let weighs = BESIDE && beside.routes.weights != 0 && token < tokens;
    let weight = if weighs { ld_global_f32(beside.routes.weights + 4 * u64::from(token)) } else { 1.0 };
    let rows = [0, 1].map(|i| {
        let Down { hidden, cols, .. } = args.networks[i];
        let source = Source { x: hidden, gain: 0, up: 0, act: 0, limit: f32::INFINITY, eps: 0.0, cols };
        Rows { source, layout: layouts[i], at: at + places.rows[i], squares: 0 }
    });
    await_predecessors();
    release_successor();
    let values = rows[0].first_values(pairs);
    if BESIDE {
        let values = rows[1].first_values(tokens);
        rows[1].fill(tokens, (values, [0.0; 8]), &beside.rounded);
    }
    rows[0].fill(pairs, (values, [0.0; 8]), &experts.rounded);

    let mut results = at + places.results;
    while turns.y < turns.end {
        let y = turns.y;
        let row = 16 * y + thread() % 16;
        let exists = row < experts.down.rows && token < tokens;
        let to = args.out + 4 * (u64::from(token) * u64::from(experts.down.rows) + u64::from(row));
        // What the sums are added to, loaded long before they are there.
        let old = if exists && args.replace == 0 { ld_global_f32(to) } else { 0.0 };
        // Sums of pairs, whichever group they are in: `[blocks][pairs][16]`; then those of tokens.
        let sums = [Sums { at: results, tokens: pairs }, Sums { at: results + places.beside, tokens }];
        while turns.group < turns.all {
            let network = turns.network();
            let (format, scales) = (network.down.format, network.scales);
            let raw = load::<true>(format, ring.take());
            ring.give_back(&mut supply);
            let (group, rows, sums) = if !BESIDE || turns.group < count {
                (groups.get(turns.group), rows[0], sums[0])
            } else {
                (Group::of_all(tokens), rows[1], sums[1])
            };
            let t = 2 * (lane() % 4);
            let members = [group.member(t), group.member(t + 1)];
            let x = columns(rows.layout, rows.at, group.member(lane() / 4), members).of_block(turns.block);
            sums.put_members(turns.block, &group, multiply::<true>(format, scales, &raw, x));
            turns.step();
        }
        barrier();
        // The sum of every pair's blocks takes the place of the first of them.
        let mut i = thread();
        while i < 16 * (pairs + layouts[1].rows) {
            let (j, sums, across) =
                if i < 16 * pairs { (i, sums[0], across[0]) } else { (i - 16 * pairs, sums[1], across[1]) };
            st_shared_f32(sums.at + 4 * j, sums.of_row(0, (1, across), j / 16, j % 16));
            i += threads();
        }
        barrier();
        // A block has at least as many threads as there are sums.
        if exists {
            let (mut sum, mut slot) = (0.0, 0);
            while slot < groups.used() {
                let pair = token * groups.used() + slot;
                let value = ld_shared_f32(results + 4 * (16 * pair + thread() % 16));
                let (chosen, weight) = groups.weight(pair);
                sum = if chosen { fma(value, weight, sum) } else { sum };
                slot += 1;
            }
            let mut before = old;
            if BESIDE {
                let value = ld_shared_f32(sums[1].at + 4 * thread());
                before += fma(value, weight, 0.0);
            }
            st_global_f32(to, before + sum);
        }
        results =
            if results == at + places.results { results + places.round_bytes } else { at + places.results };
        turns.y += 1;
        turns.start_row();
    }
}
