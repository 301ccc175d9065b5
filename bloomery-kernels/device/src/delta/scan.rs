//! The delta rule along the rows of a sequence.

use super::super::abi::delta::{
    BATCH, DIM, DeltaArgs, SCAN_THREADS, SLICE, STAGES, WARP_ROWS, row_bytes, scan_bytes,
};
use super::super::simt::{
    await_predecessors, barrier, block, copy_async16, copy_commit, copy_wait, divide, lane, ld_shared_u32x4,
    release_successor, shared_base, st_global_f32, st_shared_u32x4, thread, threads, warp,
};
use super::ring::save;
use super::sequences::{Sequence, sequence, state};
use super::slice::{Gates, Inputs, QUADS, Slice, keys};

/// Bytes of a row's inputs.
const fn row_len(channels: bool) -> u32 {
    row_bytes(SLICE, channels)
}

/// Where what each key keeps is in them.
const KEPT: u32 = row_bytes(SLICE, false);

/// The 16 bytes of every row that a thread brings in.
#[derive(Clone, Copy)]
struct Piece {
    /// Of row 0, or 0: none.
    from: u64,
    /// From row to row.
    stride: u64,
    /// In a row's inputs.
    to: u32,
}

impl Piece {
    #[inline(always)]
    unsafe fn new<const CHANNELS: bool>(args: &DeltaArgs, head: u32, first: u32) -> Self {
        let (part, i) = (thread() / 32, thread() % 32);
        let row = 4 * u64::from(args.channels());
        let keys = args.key_heads * args.key_dim;
        let start = (divide(head, args.key_heads).1) * args.key_dim;
        let at = |column: u32| args.mixed + 4 * u64::from(column);
        if CHANNELS && part == 3 {
            let exists = 4 * i < args.key_dim;
            let at = args.kept + 4 * u64::from(head * args.key_dim + 4 * i);
            let stride = 4 * u64::from(args.value_heads * args.key_dim);
            return Self { from: if exists { at } else { 0 }, stride, to: KEPT + 16 * i };
        }
        let (from, to) = if part < 2 {
            let exists = 4 * i < args.key_dim;
            (if exists { at(part * keys + start + 4 * i) } else { 0 }, 4 * DIM * part + 16 * i)
        } else if i < SLICE / 4 {
            let exists = first + 4 * i < args.value_dim;
            let column = 2 * keys + head * args.value_dim + first + 4 * i;
            (if exists { at(column) } else { 0 }, 8 * DIM + 16 * i)
        } else {
            let from = if i == SLICE / 4 { args.gates + 16 * u64::from(head) } else { 0 };
            return Self { from, stride: 16 * u64::from(args.value_heads), to: 8 * DIM + 4 * SLICE };
        };
        Self { from, stride: row, to }
    }

    /// Starts the copies of a batch of a sequence, if there is such a batch.
    #[inline(always)]
    unsafe fn fetch<const CHANNELS: bool>(self, of: Sequence, batch: u32, stages: u32) {
        let first = of.first + batch * BATCH;
        let at = stages + batch % STAGES * (BATCH * row_len(CHANNELS)) + self.to;
        let mut i = 0;
        while i < BATCH {
            if first + i < of.end && self.from != 0 && (CHANNELS || thread() < 96) {
                copy_async16(at + i * row_len(CHANNELS), self.from + u64::from(first + i) * self.stride);
            }
            i += 1;
        }
        copy_commit();
    }
}

/// A block for every 32 rows of S of every head of a sequence; what the norm and the gate are still missing from goes to `out`.
///
/// # Safety
/// The contract of `Delta`; [`convolve`](super::convolve::convolve) is the launch before, which leaves states as they are;
/// `SCAN_THREADS` threads and [`scan_bytes`] of shared memory.
#[inline(always)]
pub(crate) unsafe fn scan<const CHANNELS: bool>(args: DeltaArgs) {
    let row_len = row_len(CHANNELS);
    let stage_len = BATCH * row_len;
    let slices = args.value_dim.div_ceil(SLICE);
    let (unit, slice) = divide(block(), slices);
    let (index, head) = divide(unit, args.value_heads);
    let of = sequence(&args, index);
    let first = slice * SLICE;
    let own = first + WARP_ROWS * warp();
    let base = shared_base();
    let mut s = Slice::load(&args, of.from, head, own);
    if args.key_dim < DIM || first + SLICE > args.value_dim {
        // Nothing comes into the places of keys and rows that do not exist.
        let mut at = 16 * thread();
        while at < scan_bytes(CHANNELS) {
            st_shared_u32x4(base + at, [0; 4]);
            at += 16 * threads();
        }
        barrier();
    }
    await_predecessors();
    release_successor();
    let piece = Piece::new::<CHANNELS>(&args, head, first);
    piece.fetch::<CHANNELS>(of, 0, base);
    piece.fetch::<CHANNELS>(of, 1, base);
    let out = args.out + 4 * u64::from(head * args.value_dim + own + lane());
    let stride = 4 * u64::from(args.value_heads * args.value_dim);
    let writes = lane() < WARP_ROWS && own + lane() < args.value_dim;
    let (mut row, mut batch, mut stage) = (of.first, 0, base);
    while row < of.end {
        copy_wait(STAGES - 2);
        barrier();
        piece.fetch::<CHANNELS>(of, batch + STAGES - 1, base);
        let end = (row + BATCH).min(of.end);
        let mut at = stage;
        let inputs =
            |at: u32| (keys(at + 4 * DIM), if CHANNELS { keys(at + KEPT) } else { [[0.0; 4]; QUADS] });
        let mut k = inputs(at);
        while row < end {
            let (q, v) = (at, at + 8 * DIM + 4 * WARP_ROWS * warp());
            let [decay, beta, slot, kq] = ld_shared_u32x4(at + 8 * DIM + 4 * SLICE);
            let [decay, beta, kq] = [decay, beta, kq].map(f32::from_bits);
            // The next row's, or again this one's at the end.
            let next = at + if row + 1 < end { row_len } else { 0 };
            let now = k;
            let o;
            let gates = Gates { decay, beta, kq };
            (o, k) = s.step::<CHANNELS, _>((&now.0, &now.1), Inputs { q, v }, gates, || inputs(next));
            if writes {
                st_global_f32(out + u64::from(row) * stride, o);
            }
            let to = state(&args, slot);
            if to != 0 {
                s.store(&args, to, head, own);
                save_ring::<CHANNELS>(&args, of, row, to, head * slices + slice);
            }
            at += row_len;
            row += 1;
        }
        batch += 1;
        stage = if stage == base + (STAGES - 1) * stage_len { base } else { stage + stage_len };
    }
}

/// The channels that are this block's, of all that the sequence's blocks share.
#[inline(always)]
unsafe fn save_ring<const CHANNELS: bool>(args: &DeltaArgs, of: Sequence, row: u32, to: u64, part: u32) {
    let parts = args.value_heads * args.value_dim.div_ceil(SLICE);
    let mut at = part * SCAN_THREADS + thread();
    while at < args.channels() / 4 {
        save::<CHANNELS>(args, of, row, at, to);
        at += parts * SCAN_THREADS;
    }
}
