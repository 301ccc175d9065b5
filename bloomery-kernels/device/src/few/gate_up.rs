//! The first half: `hidden[pair] = act(gate_e n) * (up_e n)`.
//!
//! Work is a row of tiles of both matrices of an expert for all its tokens; blocks take neighbouring ones. A network beside the
//! experts, which needs nothing of theirs, has blocks behind theirs.

use super::super::abi::few::{GateUp, GateUpArgs, RESULT, Stack, gate_up_places};
use super::super::abi::formats::Q8_0;
use super::super::abi::rounded::Layout;
use super::super::groups::{Group, Groups};
use super::super::math::gated;
use super::super::rounded::{Rows, Source, columns};
use super::super::simt::{
    await_predecessors, barrier, block, blocks, divide, lane, release_successor, shared_base, st_global_f32,
    thread, uniform_warp, unknown, warps,
};
use super::super::stages::{Ring, Stage, Supply};
use super::super::tiles::{load, multiply};
use super::{Sums, share, table};

/// A warp's turns: blocks `warp, warp + warps ..` of every unit, the tile of gate before that of up.
#[derive(Clone, Copy)]
struct Turns<'a, const BESIDE: bool> {
    args: &'a GateUpArgs,
    /// Not 0: of the second network.
    second: u32,
    groups: Groups,
    /// Rows of tiles, and tiles of a row.
    down: u32,
    across: u32,
    warp: u32,
    /// Units to come; the group and the row of tiles of the first of them.
    left: u32,
    group: u32,
    y: u32,
    block: u32,
    up: bool,
}

impl<const BESIDE: bool> Turns<'_, BESIDE> {
    /// The block's network. Which one is asked anew each time: what follows from it would else be kept in registers, of which there are
    /// none left.
    #[inline(always)]
    fn network(&self) -> GateUp {
        let [own, other] = self.args.networks;
        if BESIDE && unknown(self.second) != 0 { other } else { own }
    }

    #[inline(always)]
    fn next_unit(&mut self) {
        self.left -= 1;
        self.block = self.warp;
        self.y += 1;
        if self.y == self.down {
            self.y = 0;
            self.group += 1;
        }
    }
}

impl<const BESIDE: bool> Supply for Turns<'_, BESIDE> {
    #[inline(always)]
    unsafe fn next(&mut self, stage: Stage) {
        if self.left > 0 && self.block < self.across {
            let GateUp { gate: Stack { weight, stride, tile_bytes, .. }, up, .. } = self.network();
            let weight = if self.up { up } else { weight };
            let expert = u64::from(self.groups.expert(self.group));
            let tile = u64::from(self.y * self.across + self.block) * u64::from(tile_bytes);
            stage.copy([weight + expert * stride + tile], 0, tile_bytes);
            if self.up {
                self.block += warps();
                if self.block >= self.across {
                    self.next_unit();
                }
            }
            self.up = !self.up;
        }
    }
}

/// The member of a group that column `n` of the products belongs to, as a row of `x`.
#[inline(always)]
unsafe fn token(group: &Group, used: u32, n: u32) -> u32 {
    divide(group.member(n), used).0
}

/// The kernel, with a network beside the experts or without: what asks for one costs those that have none up to 5 %.
///
/// # Safety
/// The contract of `FeedForward::launches`: buffers of the lengths in [`GateUp`], `x` and gains aligned to 16 bytes, tiles of one
/// format with as many scales, 1 to 8 tokens of 128 pairs at most, shared memory of [`gate_up_places`] for each network; blocks behind
/// the first ones only if there is a second.
#[inline(always)]
pub(crate) unsafe fn gate_up<const BESIDE: bool>(args: GateUpArgs) {
    let second = BESIDE && block() >= args.first;
    let first = if second { args.first } else { 0 };
    let blocks = if second { blocks() - first } else { args.first };
    let [own, other] = args.networks;
    let network = if second { other } else { own };
    let warp = uniform_warp();
    let GateUpArgs { x, gain, eps, cols, tokens, .. } = args;
    let routes = network.routes;
    // Of the format rather than the arguments: a register less.
    let scales = if network.gate.format == Q8_0 { 8 } else { 1 };
    let layout = Layout { blocks: cols.div_ceil(256), scales, rows: tokens };
    let (at, places) = (shared_base(), gate_up_places(layout, args.round));
    let source = Source { x, gain, up: 0, act: 0, limit: f32::INFINITY, eps, cols };
    let rows = Rows { source, layout, at: at + places.rows, squares: at + places.squares };
    let gains = rows.first_gains();
    await_predecessors();
    release_successor();
    let asked = Groups::ask(&routes, tokens);
    let values = rows.first_values(tokens);
    let groups = table(asked, &routes, tokens, at);
    let (down, across) = (network.gate.rows.div_ceil(16), layout.blocks);
    let (unit, left) = share(groups.count() * down, block() - first, blocks);
    let (group, y) = divide(unit, down);
    let mut turns = Turns::<BESIDE> {
        args: &args,
        second: second as u32,
        groups,
        down,
        across,
        warp,
        left,
        group,
        y,
        block: warp,
        up: false,
    };
    let mut supply = turns;
    let mut ring = Ring::start(at + places.bytes, warp, args.stage_bytes, args.stages, &mut supply);
    let mut odd = 0;
    rows.fill(tokens, (values, gains), &network.rounded);

    // Results of a unit.
    let unit_bytes = 2 * across * tokens * RESULT;
    while turns.left > 0 {
        let units = if turns.left < args.round { turns.left } else { args.round };
        let results = at + places.results + odd * places.round_bytes;
        let (mut group, mut y) = (turns.group, turns.y);
        let (mut unit_at, end) = (results, results + units * unit_bytes);
        while unit_at < end {
            let group = groups.get(turns.group);
            let used = turns.network().routes.used;
            let (own, t) = (token(&group, used, lane() / 4), 2 * (lane() % 4));
            let x = columns(layout, rows.at, own, [token(&group, used, t), token(&group, used, t + 1)]);
            let sums = Sums { at: unit_at, tokens: group.members };
            while turns.block < across {
                let x = x.of_block(turns.block);
                let mut matrix = 0;
                while matrix < 2 {
                    let format = turns.network().gate.format;
                    let raw = load::<false>(format, ring.take());
                    ring.give_back(&mut supply);
                    sums.put(2 * turns.block + matrix, multiply::<false>(format, scales, &raw, x));
                    matrix += 1;
                }
                turns.block += warps();
            }
            turns.next_unit();
            unit_at += unit_bytes;
        }
        barrier();
        // Members of the units, one after the other.
        let (mut unit_at, mut before) = (results, 0);
        let GateUp { gate: Stack { rows, .. }, hidden, limit, .. } = turns.network();
        while unit_at < end {
            let of = groups.get(group);
            let sums = Sums { at: unit_at, tokens: of.members };
            let i = thread().wrapping_sub(16 * before);
            let (member, row) = (i / 16, 16 * y + i % 16);
            if member < of.members && row < rows {
                let gate = sums.of_row(0, (2, across), member, i % 16);
                let up = sums.of_row(1, (2, across), member, i % 16);
                let to = u64::from(of.member(member)) * u64::from(rows) + u64::from(row);
                st_global_f32(hidden + 4 * to, gated(args.act, limit, gate, up));
            }
            before += of.members;
            y += 1;
            if y == down {
                y = 0;
                group += 1;
            }
            unit_at += unit_bytes;
        }
        odd ^= 1;
    }
}
