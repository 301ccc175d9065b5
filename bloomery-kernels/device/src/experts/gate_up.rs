//! The first half: `hidden[pair] = act(gate_e x) * (up_e x)`.
//!
//! All groups' rows in a line, every block takes its part of it: an item is a row (or several side by side) of one expert's
//! gate and the same of its up.
//!
//! Shared memory: the groups, a float for each token's norm, rows on their way to be normalised, the activations, the
//! warps' rings.

use super::super::abi::experts::{GATE_UP_HEAD, GateUpArgs};
use super::super::abi::routes::GROUPS_BYTES;
use super::super::activations::{Layout, Rows, Source};
use super::super::class::Formats;
use super::super::groups::{Group, Groups};
use super::super::math::gated;
use super::super::ring::{Item, Sums, Walk, side_and_place};
use super::super::simt::{
    await_predecessors, block, blocks, divide, release_successor, shared_base, shfl_xor_f32, st_global_f32,
    uniform_warp, warps,
};
use super::super::stages::{Ring, Stage, Supply};
use super::table;

/// The chunks of a warp's items.
struct Chunks<'a> {
    args: &'a GateUpArgs,
    groups: Groups,
    walk: Walk,
    /// Items to come.
    left: u32,
    chunk: u32,
    /// The matrices of the walk's expert.
    gate: u64,
    up: u64,
}

/// Where an expert's matrices start.
#[inline(always)]
fn matrices(args: &GateUpArgs, expert: u32) -> [u64; 2] {
    let GateUpArgs { gate, up, .. } = args;
    [gate.weight + u64::from(expert) * gate.stride, up.weight + u64::from(expert) * up.stride]
}

impl Chunks<'_> {
    #[inline(always)]
    unsafe fn enter(&mut self) {
        if self.left > 0 {
            [self.gate, self.up] = matrices(self.args, self.groups.expert(self.walk.group));
        }
    }

    #[inline(always)]
    unsafe fn step(&mut self) {
        self.left -= 1;
        if self.walk.step() {
            self.enter();
        }
    }
}

impl Supply for Chunks<'_> {
    #[inline(always)]
    unsafe fn next(&mut self, stage: Stage) {
        if self.left == 0 {
            return;
        }
        let shape = &self.args.gate.shape;
        let first = self.walk.item << (5 - shape.lanes_log);
        let at = u64::from(first) * u64::from(shape.row_bytes);
        let span = shape.span_bytes(shape.side());
        if shape.chunks == 1 {
            let left = self.args.gate.rows - first;
            let rows = if left < shape.side() { left } else { shape.side() };
            stage.copy([self.gate + at, self.up + at], span, rows * shape.row_bytes);
            self.step();
            return;
        }
        let from = self.chunk * shape.chunk_bytes;
        let left = shape.row_bytes - from;
        let bytes = if left < shape.chunk_bytes { left } else { shape.chunk_bytes };
        let at = at + u64::from(from);
        stage.copy([self.gate + at, self.up + at], span, bytes);
        self.chunk += 1;
        if self.chunk == shape.chunks {
            self.chunk = 0;
            self.step();
        }
    }
}

/// Where the tokens' rows of activations are.
#[derive(Clone, Copy)]
struct Tokens {
    first: u32,
    stride: u32,
}

/// One item for up to `T` tokens: rows `first ..` of the group's matrices, the low bits of whose addresses are `low`.
#[inline(always)]
unsafe fn item<C: Formats, const T: usize>(
    args: &GateUpArgs,
    (group, first, low): (&Group, u32, [u32; 2]),
    tokens: Tokens,
    ring: &mut Ring,
    chunks: &mut Chunks<'_>,
) {
    let shape = &args.gate.shape;
    let (side, place) = side_and_place(shape);
    let mut x = [tokens.first; T];
    let mut k = 0;
    while k < T && args.tokens > 1 {
        x[k] = tokens.first + divide(group.member(k as u32), args.routes.used).0 * tokens.stride;
        k += 1;
    }
    let row = if shape.chunks == 1 { side * shape.row_bytes } else { 0 };
    let offset = [row, row + shape.span_bytes(shape.side())];
    let at = first * shape.row_bytes;
    let layout = Layout::new(C::CLASS, args.cols);
    let item = Item { shape, offset, low: [low[0] + at, low[1] + at], layout, x };
    let sums: Sums<2, T> = C::products(args.gate.format, &item, ring, chunks);
    // The upper half of a row's lanes has the sums of up, the lower half those of gate.
    let half = shape.lanes() / 2;
    let mut i = 0;
    while i < Sums::<2, T>::HELD {
        let gate = sums.get(i);
        let up = shfl_xor_f32(gate, half);
        if let (Some(index), true) = (Sums::<2, T>::index(shape), place < half) {
            let (k, row) = (index + i as u32, first + side);
            let (mut pair, mut j) = (group.member(0), 1);
            while j < T {
                pair = if j as u32 == k { group.member(j as u32) } else { pair };
                j += 1;
            }
            if k < group.members && row < args.gate.rows {
                let to = u64::from(pair) * u64::from(args.gate.rows) + u64::from(row);
                st_global_f32(args.hidden + 4 * to, gated(args.act, args.limit, gate, up));
            }
        }
        i += 1;
    }
}

/// The kernel, for groups of up to `T` tokens.
///
/// # Safety
/// The contract of `FeedForward::launches`: buffers of the lengths in [`GateUpArgs`], activations, gains and 16-byte formats
/// aligned to 16 bytes, a format of the class, the same for both matrices, shared memory for the head, the raw rows, the tokens'
/// activations and every warp's ring.
#[inline(always)]
pub(crate) unsafe fn gate_up<C: Formats, const T: usize>(args: GateUpArgs) {
    let (head, warp) = (shared_base(), uniform_warp());
    let raw = head + GATE_UP_HEAD;
    let tokens = Tokens { first: raw + args.raw_bytes, stride: C::CLASS.activation_bytes(args.cols) };
    let GateUpArgs { x, gain, eps, cols, raw_bytes, .. } = args;
    let source = Source { x, gain, eps, cols, rows: args.tokens };
    let fill = Rows { class: C::CLASS, source, norms: head + GROUPS_BYTES, raw, raw_bytes, to: tokens.first };
    await_predecessors();
    release_successor();
    let asked = Groups::ask(&args.routes, args.tokens);
    fill.fetch();
    let groups = table::<T>(asked, &args.routes, args.tokens, head);

    let shape = &args.gate.shape;
    let per_group = (args.gate.rows + shape.side() - 1) >> (5 - shape.lanes_log);
    let all = groups.count() * per_group;
    let (share, extra) = divide(all, blocks());
    let more = if block() < extra { block() } else { extra };
    let first = block() * share + more + warp;
    let items = share + (block() < extra) as u32;
    let turns = if warp < items { divide(items - warp + warps() - 1, warps()).0 } else { 0 };
    let mut walk = Walk::new(first, per_group);
    let mut chunks = Chunks { args: &args, groups, walk, left: turns, chunk: 0, gate: 0, up: 0 };
    chunks.enter();
    let ring = tokens.first + args.tokens * tokens.stride;
    let mut ring = Ring::start(ring, warp, args.stage_bytes, args.stages, &mut chunks);
    fill.fill();

    let mut left = turns;
    while left > 0 {
        let group = groups.get(walk.group);
        let low = matrices(&args, group.expert).map(|address| address as u32);
        let work = (&group, walk.item << (5 - shape.lanes_log), low);
        if T != 4 {
            item::<C, T>(&args, work, tokens, &mut ring, &mut chunks);
        } else if group.members == 1 {
            item::<C, 1>(&args, work, tokens, &mut ring, &mut chunks);
        } else if group.members == 2 {
            item::<C, 2>(&args, work, tokens, &mut ring, &mut chunks);
        } else {
            item::<C, 4>(&args, work, tokens, &mut ring, &mut chunks);
        }
        walk.step();
        left -= 1;
    }
}
