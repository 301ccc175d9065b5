//! Several products of the same rows in one launch.
//!
//! Shared memory: the parts' table, a float for each token's norm, rows on their way to be normalised, the activations,
//! the warps' rings.
//!
//! Every block takes its share of the rows of every part; its warps take turns with the items of all parts, an item being the
//! rows that a warp multiplies at a time.

use super::abi::project::{DEPTH, PARTS, PROJECT_HEAD, Part, ProjectArgs};
use super::abi::shape::Shape;
use super::activations::{Layout, Rows, Source};
use super::class::Formats;
use super::ring::{Item, Sums, side_and_place};
use super::simt::{
    await_predecessors, barrier, block, divide, ld_global_f32, ld_shared_u32, ld_shared_u32x4,
    release_successor, shared_base, st_global_f32, st_shared_u32x4, thread, uniform_warp, warps,
};
use super::stages::{Ring, Stage, Supply};

/// Bytes of a part in the table.
const ENTRY: u32 = 80;
/// Rows of weights at once.
const R: usize = DEPTH as usize;

/// A block's share of a part: what its warps read. In the table, it is followed by the [`Target`].
#[derive(Clone, Copy)]
struct Share {
    /// The first of the block's rows.
    weight: u64,
    /// How many they are.
    count: u32,
    format: u32,
    shape: Shape,
}

/// Where the products of a share go.
struct Target {
    /// Rows of the part.
    rows: u32,
    accumulate: bool,
    /// Of the block's first row.
    bias: u64,
    out: u64,
}

#[inline(always)]
fn wide(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The block's rows of a part: the first and how many, and how often a warp takes some.
#[inline(always)]
fn share(part: &Part, block: u32) -> (u32, u32, u32) {
    let more = if block < part.extra { block } else { part.extra };
    let count = part.share + (block < part.extra) as u32;
    let of_item = DEPTH * part.shape.side();
    (block * part.share + more, count, ((count + of_item - 1) / DEPTH) >> (5 - part.shape.lanes_log))
}

/// Writes a part's entry of the table; `before` items are those of the parts before.
#[inline(always)]
unsafe fn enter(part: &Part, block: u32, before: u32, at: u32) {
    let (first, count, items) = share(part, block);
    let turn = divide(before, warps()).1;
    let Shape { units, lanes_log, row_bytes, chunk_units, chunk_bytes, chunks, slot_bytes } = part.shape;
    let weight = part.weight + u64::from(first) * u64::from(row_bytes);
    let bias = if part.bias == 0 { 0 } else { part.bias + 4 * u64::from(first) };
    let out = part.out + 4 * u64::from(first);
    st_shared_u32x4(at, [weight as u32, (weight >> 32) as u32, count, part.format]);
    st_shared_u32x4(at + 16, [units, lanes_log, row_bytes, chunk_units]);
    st_shared_u32x4(at + 32, [chunk_bytes, chunks, slot_bytes, items]);
    st_shared_u32x4(at + 48, [part.rows, part.accumulate, turn, 0]);
    st_shared_u32x4(at + 64, [bias as u32, (bias >> 32) as u32, out as u32, (out >> 32) as u32]);
}

impl Share {
    #[inline(always)]
    unsafe fn load(at: u32) -> Self {
        let [low, high, count, format] = ld_shared_u32x4(at);
        let [units, lanes_log, row_bytes, chunk_units] = ld_shared_u32x4(at + 16);
        let [chunk_bytes, chunks, slot_bytes, _] = ld_shared_u32x4(at + 32);
        let shape = Shape { units, lanes_log, row_bytes, chunk_units, chunk_bytes, chunks, slot_bytes };
        Self { weight: wide(low, high), count, format, shape }
    }

    /// The first row of an item.
    #[inline(always)]
    fn first(&self, item: u32) -> u32 {
        (DEPTH * item) << (5 - self.shape.lanes_log)
    }
}

impl Target {
    #[inline(always)]
    unsafe fn load(at: u32) -> Self {
        let [rows, accumulate, _, _] = ld_shared_u32x4(at + 48);
        let [bias_low, bias_high, out_low, out_high] = ld_shared_u32x4(at + 64);
        let (bias, out) = (wide(bias_low, bias_high), wide(out_low, out_high));
        Self { rows, accumulate: accumulate != 0, bias, out }
    }
}

/// A warp's turns among the items of all parts: of each part, `item, item + warps, ..`.
struct Parts {
    /// The part's entry.
    entry: u32,
    /// Where entries end.
    end: u32,
    items: u32,
    item: u32,
}

impl Parts {
    #[inline(always)]
    unsafe fn new(table: u32, warp: u32, parts: u32) -> Self {
        let mut new = Self { entry: table, end: table + ENTRY * parts, items: 0, item: 0 };
        new.settle(warp);
        new
    }

    #[inline(always)]
    fn more(&self) -> bool {
        self.entry < self.end
    }

    /// Moves on to a part that has items for this warp, if there is one.
    #[inline(always)]
    unsafe fn settle(&mut self, warp: u32) {
        while self.entry < self.end {
            self.items = ld_shared_u32(self.entry + 44);
            let turn = ld_shared_u32(self.entry + 56);
            self.item = warp + if warp < turn { warps() } else { 0 } - turn;
            if self.item < self.items {
                return;
            }
            self.entry += ENTRY;
        }
    }

    /// The warp's next item.
    #[inline(always)]
    unsafe fn step(&mut self, warp: u32) {
        self.item += warps();
        if self.item >= self.items {
            self.entry += ENTRY;
            self.settle(warp);
        }
    }
}

/// The chunks of a warp's items.
struct Chunks {
    parts: Parts,
    warp: u32,
    chunk: u32,
}

impl Supply for Chunks {
    #[inline(always)]
    unsafe fn next(&mut self, stage: Stage) {
        if !self.parts.more() {
            return;
        }
        // Loaded every time: there are no registers to keep it in.
        let share = Share::load(self.parts.entry);
        let shape = &share.shape;
        let (first, of_item) = (share.first(self.parts.item), DEPTH * shape.side());
        let at = share.weight + u64::from(first) * u64::from(shape.row_bytes);
        let left = share.count - first;
        let rows = if left < of_item { left } else { of_item };
        if shape.chunks == 1 {
            stage.copy([at], 0, rows * shape.row_bytes);
            self.parts.step(self.warp);
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
            self.parts.step(self.warp);
        }
    }
}

/// Delivers this lane's sums of an item. Without `sums`: loads what they are added to.
#[inline(always)]
unsafe fn deliver<const T: usize>(
    share: &Share,
    target: &Target,
    item: u32,
    tokens: u32,
    sums: Option<&Sums<R, T>>,
    old: &mut [f32; 2],
) {
    let shape = &share.shape;
    let Some(index) = Sums::<R, T>::index(shape) else { return };
    let (side, _) = side_and_place(shape);
    let mut i = 0;
    while i < Sums::<R, T>::HELD {
        let (r, t) = ((index + i as u32) / T as u32, (index + i as u32) % T as u32);
        let row = share.first(item) + r * shape.side() + side;
        if row < share.count && t < tokens {
            let to = target.out + 4 * (u64::from(t) * u64::from(target.rows) + u64::from(row));
            match sums {
                None => old[i] = ld_global_f32(to),
                Some(sums) => {
                    let mut sum = sums.get(i);
                    if target.bias != 0 {
                        sum += ld_global_f32(target.bias + 4 * u64::from(row));
                    }
                    st_global_f32(to, if target.accumulate { old[i] + sum } else { sum });
                }
            }
        }
        i += 1;
    }
}

/// Where this lane's rows of an item are in a stage.
#[inline(always)]
fn places(share: &Share, item: u32) -> ([u32; R], [u32; R]) {
    let shape = &share.shape;
    let (side, _) = side_and_place(shape);
    let first = share.weight as u32 + share.first(item) * shape.row_bytes;
    let (mut offset, mut low, mut r) = ([0; R], [first; R], 0);
    while r < R {
        if shape.chunks == 1 {
            offset[r] = (r as u32 * shape.side() + side) * shape.row_bytes;
        } else {
            offset[r] = r as u32 * shape.slot_bytes;
            low[r] += r as u32 * shape.row_bytes;
        }
        r += 1;
    }
    (offset, low)
}

/// `out_p[t] (+)= W_p norm(x[t]) + b_p` for up to `T` rows.
///
/// # Safety
/// The contract of `Project::launch`: buffers of the lengths in [`ProjectArgs`], activations, gains and 16-byte formats
/// aligned to 16 bytes, all formats of the class, shared memory for the head, the raw rows, `T` rows of activations and every
/// warp's ring.
#[inline(always)]
pub(crate) unsafe fn project<C: Formats, const T: usize>(args: ProjectArgs) {
    project_block::<C, T>(args, block());
}

/// What block `block` does.
///
/// # Safety
/// As [`project`].
#[inline(always)]
pub(crate) unsafe fn project_block<C: Formats, const T: usize>(args: ProjectArgs, block: u32) {
    let (table, warp) = (shared_base(), uniform_warp());
    let (mut p, mut before) = (0, 0);
    while p < PARTS {
        let part = &args.parts[p];
        if (p as u32) < args.parts_used {
            if thread() == 32 * p as u32 {
                enter(part, block, before, table + ENTRY * p as u32);
            }
            before += share(part, block).2;
        }
        p += 1;
    }
    barrier();
    let norms = table + ENTRY * PARTS as u32;
    let raw = table + PROJECT_HEAD;
    let rows = raw + args.raw_bytes;
    let stride = C::CLASS.activation_bytes(args.cols);
    let parts = || Parts::new(table, warp, args.parts_used);
    let mut chunks = Chunks { parts: parts(), warp, chunk: 0 };
    let mut ring = Ring::start(rows + T as u32 * stride, warp, args.stage_bytes, args.stages, &mut chunks);

    let ProjectArgs { x, gain, eps, cols, tokens, raw_bytes, .. } = args;
    let source = Source { x, gain, eps, cols, rows: tokens };
    let fill = Rows { class: C::CLASS, source, norms, raw, raw_bytes, to: rows };
    await_predecessors();
    release_successor();
    fill.fetch();
    fill.fill();

    let layout = Layout::new(C::CLASS, args.cols);
    let mut x = [0; T];
    let mut t = 0;
    while t < T {
        x[t] = rows + t as u32 * stride;
        t += 1;
    }
    let mut parts = parts();
    while parts.more() {
        let share = Share::load(parts.entry);
        let mut old = [0.0; 2];
        let target = Target::load(parts.entry);
        if target.accumulate {
            // Loaded now, needed when the weights have arrived.
            deliver::<T>(&share, &target, parts.item, tokens, None, &mut old);
        }
        let (offset, low) = places(&share, parts.item);
        let work = Item { shape: &share.shape, offset, low, layout, x };
        let sums = C::products(share.format, &work, &mut ring, &mut chunks);
        deliver(&share, &Target::load(parts.entry), parts.item, tokens, Some(&sums), &mut old);
        parts.step(warp);
    }
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    macro_rules! entries {
        ($feature:literal, $class:ident: $($name:ident $tokens:literal $threads:literal $blocks:literal,)*) => {$(
            #[cfg(feature = $feature)]
            crate::simt::bounds!($name, $threads, $blocks);

            /// See [`project`](super::project).
            #[cfg(feature = $feature)]
            #[unsafe(no_mangle)]
            pub unsafe extern "ptx-kernel" fn $name(args: super::ProjectArgs) {
                super::project::<crate::class::$class, $tokens>(args);
            }
        )*};
    }

    entries! {
        "project_float", Float:
        project_float_1 1 256 2, project_float_2 2 256 2, project_float_4 4 256 1, project_float_8 8 256 1,
    }
}
