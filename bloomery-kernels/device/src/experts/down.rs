//! The second half: `out[token] (+)= sum over slots of weight * down_e hidden[pair]`.
//!
//! Every block takes some of the output columns for all groups, rounds all pairs' hidden values, and keeps the products of its
//! columns until it has all of them.
//!
//! Shared memory: the groups, the products `[pairs][columns]`, the activations, the warps' rings.

use super::super::abi::experts::DownArgs;
use super::super::abi::project::DEPTH;
use super::super::abi::routes::GROUPS_BYTES;
use super::super::activations::{Layout, Rows, Source};
use super::super::class::Formats;
use super::super::groups::{Group, Groups};
use super::super::ring::{Item, Sums, Walk, side_and_place};
use super::super::simt::{
    await_predecessors, barrier, block, divide, fma, ld_global_f32, ld_shared_f32, release_successor,
    shared_base, st_global_f32, st_shared_f32, thread, threads, uniform_warp, warps,
};
use super::super::stages::{Ring, Stage, Supply};
use super::table;

/// Rows of weights at once.
const R: usize = DEPTH as usize;

/// The chunks of a warp's items.
struct Chunks<'a> {
    args: &'a DownArgs,
    groups: Groups,
    walk: Walk,
    /// Items to come.
    left: u32,
    chunk: u32,
    /// Columns of the block.
    columns: u32,
    /// The block's weights of the first expert, and of the walk's.
    first: u64,
    down: u64,
}

impl Chunks<'_> {
    #[inline(always)]
    unsafe fn enter(&mut self) {
        if self.left > 0 {
            self.down = self.first + u64::from(self.groups.expert(self.walk.group)) * self.args.down.stride;
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
        let shape = &self.args.down.shape;
        let first = (DEPTH * self.walk.item) << (5 - shape.lanes_log);
        let at = self.down + u64::from(first) * u64::from(shape.row_bytes);
        let (left, of_item) = (self.columns - first, DEPTH * shape.side());
        let rows = if left < of_item { left } else { of_item };
        if shape.chunks == 1 {
            stage.copy([at], 0, rows * shape.row_bytes);
            self.step();
            return;
        }
        let from = self.chunk * shape.chunk_bytes;
        let left = shape.row_bytes - from;
        let bytes = if left < shape.chunk_bytes { left } else { shape.chunk_bytes };
        let at = at + u64::from(from);
        // Of the last row twice if it stands alone.
        let next = if rows > 1 { at + u64::from(shape.row_bytes) } else { at };
        stage.copy([at, next], shape.slot_bytes, bytes);
        self.chunk += 1;
        if self.chunk == shape.chunks {
            self.chunk = 0;
            self.step();
        }
    }
}

/// Where things are in shared memory.
#[derive(Clone, Copy)]
struct Places {
    products: u32,
    /// Room for a pair's products, and how many there are.
    columns: u32,
    block_columns: u32,
    /// The pairs' rows of activations.
    rows: u32,
    stride: u32,
}

/// One item for up to `T` pairs: columns `first ..` of the block, the low bits of the address of whose weights are `low`.
#[inline(always)]
unsafe fn item<C: Formats, const T: usize>(
    args: &DownArgs,
    (group, first, low): (&Group, u32, u32),
    places: Places,
    ring: &mut Ring,
    chunks: &mut Chunks<'_>,
) {
    let shape = &args.down.shape;
    let (side, _) = side_and_place(shape);
    let mut x = [0; T];
    let mut k = 0;
    while k < T {
        x[k] = places.rows + group.member(k as u32) * places.stride;
        k += 1;
    }
    let (mut offset, mut lows, mut r) = ([0; R], [low; R], 0);
    while r < R {
        if shape.chunks == 1 {
            offset[r] = (r as u32 * shape.side() + side) * shape.row_bytes;
        } else {
            offset[r] = r as u32 * shape.slot_bytes;
            lows[r] += r as u32 * shape.row_bytes;
        }
        r += 1;
    }
    let layout = Layout::new(C::CLASS, args.cols);
    let item = Item { shape, offset, low: lows, layout, x };
    let sums: Sums<R, T> = C::products(args.down.format, &item, ring, chunks);
    let Some(index) = Sums::<R, T>::index(shape) else { return };
    let mut i = 0;
    while i < Sums::<R, T>::HELD {
        let (r, k) = ((index + i as u32) / T as u32, (index + i as u32) % T as u32);
        let (mut pair, mut j) = (group.member(0), 1);
        while j < T {
            pair = if j as u32 == k { group.member(j as u32) } else { pair };
            j += 1;
        }
        let column = first + r * shape.side() + side;
        if k < group.members && column < places.block_columns {
            st_shared_f32(places.products + 4 * (pair * places.columns + column), sums.get(i));
        }
        i += 1;
    }
}

/// The kernel, for groups of up to `T` tokens.
///
/// # Safety
/// The contract of `FeedForward::launches`: buffers of the lengths in [`DownArgs`], 16-byte formats aligned to 16 bytes, a format
/// of the class, shared memory for the groups, the products, all pairs' activations and every warp's ring. The launch before it
/// is the first half, with the same routes: they are read before that has ended.
#[inline(always)]
pub(crate) unsafe fn down<C: Formats, const T: usize>(args: DownArgs) {
    let (head, warp) = (shared_base(), uniform_warp());
    let asked = Groups::ask(&args.routes, args.tokens);
    let groups = table::<T>(asked, &args.routes, args.tokens, head);
    let shape = &args.down.shape;
    let more = if block() < args.extra { block() } else { args.extra };
    let first_column = block() * args.share + more;
    let columns = args.share + (block() < args.extra) as u32;
    let of_item = DEPTH * shape.side();
    let per_group = ((columns + of_item - 1) / DEPTH) >> (5 - shape.lanes_log);
    let pairs = args.tokens * groups.used();
    let products = head + GROUPS_BYTES;
    let width = args.share + 1;
    let places = Places {
        products,
        columns: width,
        block_columns: columns,
        rows: products + ((4 * pairs * width + 15) & !15),
        stride: C::CLASS.activation_bytes(args.cols),
    };
    let items = groups.count() * per_group;
    let turns = if warp < items { divide(items - warp + warps() - 1, warps()).0 } else { 0 };
    // A block without columns has no items.
    let mut walk = Walk::new(warp, if per_group > 0 { per_group } else { 1 });
    let first = args.down.weight + u64::from(first_column) * u64::from(shape.row_bytes);
    let mut chunks = Chunks { args: &args, groups, walk, left: turns, chunk: 0, columns, first, down: 0 };
    chunks.enter();
    let ring = places.rows + pairs * places.stride;
    let mut ring = Ring::start(ring, warp, args.stage_bytes, args.stages, &mut chunks);

    await_predecessors();
    release_successor();
    let source = Source { x: args.hidden, gain: 0, eps: 0.0, cols: args.cols, rows: pairs };
    let fill = Rows { class: C::CLASS, source, norms: 0, raw: 0, raw_bytes: 0, to: places.rows };
    // What the first sums are added to, loaded long before they are there.
    let early = match target(&args, first_column, columns, thread()) {
        Some((to, _, _)) if args.replace == 0 => ld_global_f32(to),
        _ => 0.0,
    };
    fill.fill();

    let mut left = turns;
    while left > 0 {
        let group = groups.get(walk.group);
        let first_row = (DEPTH * walk.item) << (5 - shape.lanes_log);
        let low = (first + u64::from(group.expert) * args.down.stride) as u32 + first_row * shape.row_bytes;
        let work = (&group, first_row, low);
        if T != 4 {
            item::<C, T>(&args, work, places, &mut ring, &mut chunks);
        } else if group.members == 1 {
            item::<C, 1>(&args, work, places, &mut ring, &mut chunks);
        } else if group.members == 2 {
            item::<C, 2>(&args, work, places, &mut ring, &mut chunks);
        } else {
            item::<C, 4>(&args, work, places, &mut ring, &mut chunks);
        }
        walk.step();
        left -= 1;
    }
    barrier();

    // The weighted products of every token's slots, in the order of the slots.
    let mut at = thread();
    while let Some((to, token, column)) = target(&args, first_column, columns, at) {
        let old = if at == thread() || args.replace != 0 { early } else { ld_global_f32(to) };
        let (mut sum, mut slot) = (0.0, 0);
        while slot < groups.used() {
            let pair = token * groups.used() + slot;
            let (chosen, weight) = groups.weight(pair);
            if chosen {
                sum = fma(ld_shared_f32(places.products + 4 * (pair * places.columns + column)), weight, sum);
            }
            slot += 1;
        }
        st_global_f32(to, old + sum);
        at += threads();
    }
}

/// Output `at` of the block: its address, token and column.
#[inline(always)]
unsafe fn target(args: &DownArgs, first_column: u32, columns: u32, at: u32) -> Option<(u64, u32, u32)> {
    if at >= args.tokens * columns {
        return None;
    }
    let (token, column) = divide(at, columns);
    let to = u64::from(token) * u64::from(args.down.rows) + u64::from(first_column + column);
    Some((args.out + 4 * to, token, column))
}
