//! Products of many rows: two rows of warps multiply a block of rows of weights with a block of rows of activations; the next pieces of
//! both come in while some are multiplied.
//!
//! A sum goes through the pieces in their order, whatever the sizes of blocks, so that a row has the same bits among any others.

use core::marker::PhantomData;

use super::super::abi::many_float::{PARTS, PIECE, Part, ProductArgs, stage_bytes};
use super::super::simt::{
    WARP, await_predecessors, barrier, block, copy_async16, copy_commit, copy_wait, divide, fma, lane,
    ld_global_f32, ld_shared_u32x4, release_successor, shared_base, st_global_f32, st_shared_u32x4, thread,
    uniform_warp, unknown,
};
use super::operands::{Kind, Weights};

/// Eights of rows of activations of a warp.
const N: usize = 4;

/// A warp's sums: eights of rows of activations, sixteens of rows of weights.
type Sums<const M: usize> = [[[f32; 4]; M]; N];

/// Rows, of weights or activations, on their way to stages.
#[derive(Clone, Copy)]
struct Lines {
    /// Of the first one.
    from: u64,
    /// Bytes from one to the next.
    stride: u64,
    /// Bytes of one.
    bytes: u32,
    /// How many there are.
    count: u32,
}

impl Lines {
    /// Starts the copies of piece `k` of up to `most` lines, `side` times 16 bytes of each. Behind their end are zeros.
    #[inline(always)]
    unsafe fn fetch(self, to: u32, side: u32, most: u32, k: u32, threads: u32) {
        // There are no registers to keep in what follows from the thread's number.
        let thread = unknown(thread());
        let (mut line, byte) = (thread / side, 16 * (side * k + thread % side));
        let (mut to, end) = (to + 16 * thread, to + 16 * side * most);
        let mut from = self.from + u64::from(line) * self.stride + u64::from(byte);
        let step = threads / side;
        while to < end {
            if line < self.count {
                if byte < self.bytes {
                    copy_async16(to, from);
                } else {
                    st_shared_u32x4(to, [0; 4]);
                }
            }
            line += step;
            from += u64::from(step) * self.stride;
            to += 16 * threads;
        }
    }
}

/// What a block works on: `32 M` rows of weights, `32 A` of activations, of which two rows of `A` warps have their share; a stage has `P`
/// pieces of each.
struct Work<K, const M: usize, const A: u32, const P: u32> {
    weights: Lines,
    /// Rounded, and the rest.
    x: [Lines; 2],
    /// Pieces of a row.
    pieces: u32,
    /// Whether there are rows of both for this warp.
    busy: bool,
    kind: PhantomData<K>,
}

impl<K: Kind, const M: usize, const A: u32, const P: u32> Work<K, M, A, P> {
    const ROWS: u32 = 32 * M as u32;
    const COLUMNS: u32 = 8 * N as u32 * A;
    const THREADS: u32 = 2 * WARP * A;
    const PIECE_BYTES: u32 = stage_bytes(Self::ROWS, Self::COLUMNS, K::PLANES, 1);
    const BYTES: u32 = P * Self::PIECE_BYTES;

    /// Starts the copies of the pieces from `k` on to the stage at `to`, if there are any.
    #[inline(always)]
    unsafe fn fetch(&self, mut to: u32, first: u32) {
        let mut k = first;
        while k < first + P {
            if k < self.pieces {
                self.weights.fetch(to, K::SIDE, 4 * Self::ROWS / K::SIDE, k, Self::THREADS);
                let x = to + PIECE * Self::ROWS;
                self.x[0].fetch(x, 4, Self::COLUMNS, k, Self::THREADS);
                if K::PLANES == 2 {
                    self.x[1].fetch(x + PIECE * Self::COLUMNS, 4, Self::COLUMNS, k, Self::THREADS);
                }
            }
            to += Self::PIECE_BYTES;
            k += 1;
        }
        copy_commit();
    }

    /// Adds the products of the piece at `at`.
    #[inline(always)]
    unsafe fn multiply(&self, at: u32, warp: u32, sums: &mut Sums<M>) {
        let from = at + PIECE * 16 * M as u32 * (warp % 2);
        let (mut weights, mut m) = ([[[0; 4]; 2]; M], 0);
        while m < M {
            weights[m] = K::weights(from + PIECE * 16 * m as u32);
            m += 1;
        }
        let from = at + PIECE * (Self::ROWS + 8 * N as u32 * (warp / 2)) + 16 * lane();
        // Written out: the sums must stay in registers, and the compiler does not unroll a loop as long as this.
        Self::add(&weights, from, 0, &mut sums[0]);
        Self::add(&weights, from, 1, &mut sums[1]);
        Self::add(&weights, from, 2, &mut sums[2]);
        Self::add(&weights, from, 3, &mut sums[3]);
    }

    /// Adds the products with the `n`-th eight rows of activations.
    #[inline(always)]
    unsafe fn add(weights: &[Weights; M], from: u32, n: u32, sums: &mut [[f32; 4]; M]) {
        let high = from + PIECE * 8 * n;
        let low = if K::PLANES == 2 { ld_shared_u32x4(high + PIECE * Self::COLUMNS) } else { [0; 4] };
        let x = [ld_shared_u32x4(high), low];
        let mut m = 0;
        while m < M {
            let more = K::product(&weights[m], &x);
            let mut i = 0;
            while i < 4 {
                sums[m][i] += more[i];
                i += 1;
            }
            m += 1;
        }
    }

    /// The warp's sums.
    #[inline(always)]
    unsafe fn sums(&self, stages: u32, warp: u32) -> Sums<M> {
        let base = shared_base();
        let mut stage = 0;
        while stage + 1 < stages {
            self.fetch(base + stage * Self::BYTES, stage * P);
            stage += 1;
        }
        let mut sums = [[[0.0; 4]; M]; N];
        let mut k = 0;
        stage = 0;
        while k < self.pieces {
            // All but the stages after this one have come in.
            copy_wait(stages - 2);
            barrier();
            // Into the stage that was multiplied before.
            let free = if stage == 0 { stages - 1 } else { stage - 1 };
            self.fetch(base + free * Self::BYTES, k + (stages - 1) * P);
            let (mut at, end) = (base + stage * Self::BYTES, k + P);
            while k < end {
                if self.busy && k < self.pieces {
                    self.multiply(at, warp, &mut sums);
                }
                at += Self::PIECE_BYTES;
                k += 1;
            }
            stage = if stage + 1 == stages { 0 } else { stage + 1 };
        }
        sums
    }
}

/// What a block has of the parts: its part, and the first of its rows, of its rows of activations, and its head.
struct Place {
    part: Part,
    row: u32,
    column: u32,
    head: u32,
}

impl Place {
    #[inline(always)]
    unsafe fn new(args: &ProductArgs, block: u32, rows: u32, columns: u32) -> Self {
        let (rest, down) = divide(block, args.down);
        let (head, across) = divide(rest, args.across);
        let (mut part, mut p) = (args.parts[0], 1);
        while p < PARTS {
            if args.parts[p].rows != 0 && down >= args.parts[p].before {
                part = args.parts[p];
            }
            p += 1;
        }
        Self { part, row: rows * (down - part.before), column: columns * across, head }
    }

    /// Writes a warp's sums: from row `row` of the block and row `column` of its activations on.
    #[inline(always)]
    unsafe fn deliver<const M: usize>(&self, args: &ProductArgs, sums: &Sums<M>, row: u32, column: u32) {
        let (row, column) = (self.row + row + lane() / 4, self.column + column + 2 * (lane() % 4));
        let part = &self.part;
        let (mut biases, mut m) = ([[0.0; 2]; M], 0);
        while m < M {
            let mut half = 0;
            while half < 2 {
                let row = row + 16 * m as u32 + 8 * half as u32;
                if part.bias != 0 && row < part.rows {
                    biases[m][half] = ld_global_f32(part.bias + 4 * u64::from(row));
                }
                half += 1;
            }
            m += 1;
        }
        let mut n = 0;
        while n < N {
            let mut side = 0;
            while side < 2 {
                let column = column + 8 * n as u32 + side as u32;
                if column < args.rows {
                    let line = u64::from(column) * u64::from(args.heads) + u64::from(self.head);
                    let factor = if args.factors == 0 { 1.0 } else { ld_global_f32(args.factors + 4 * line) };
                    let out = part.out + 4 * (line * u64::from(part.rows) + u64::from(row));
                    let mut m = 0;
                    while m < M {
                        let mut half = 0;
                        while half < 2 {
                            let below = 16 * m as u32 + 8 * half as u32;
                            if row + below < part.rows {
                                let to = out + 4 * u64::from(below);
                                let sum = fma(sums[n][m][2 * half + side], factor, biases[m][half]);
                                let old = if part.accumulate != 0 { ld_global_f32(to) } else { 0.0 };
                                st_global_f32(to, if part.accumulate != 0 { old + sum } else { sum });
                            }
                            half += 1;
                        }
                        m += 1;
                    }
                }
                side += 1;
            }
            n += 1;
        }
    }
}

/// The kernel.
///
/// # Safety
/// The contract of the launchers in `many_float`: buffers of the lengths in [`ProductArgs`], aligned to 16 bytes like their rows; shared
/// memory for the stages; a block for every `32 M` rows of the parts, `32 A` rows of activations, and head.
#[inline(always)]
pub(crate) unsafe fn products<K: Kind, const M: usize, const A: u32, const P: u32>(args: ProductArgs) {
    let warp = uniform_warp();
    await_predecessors();
    release_successor();
    let (rows, columns) = (Work::<K, M, A, P>::ROWS, Work::<K, M, A, P>::COLUMNS);
    let Place { part, row, column, head } = Place::new(&args, block(), rows, columns);
    // Rows of a matrix that are side by side in memory.
    let together = K::SIDE / 4;
    let bytes = together * args.row_bytes;
    let first = u64::from(head) * args.stride + u64::from(row / together) * u64::from(bytes);
    let weights = Lines {
        from: part.weight + first,
        stride: bytes.into(),
        bytes,
        count: (part.rows - row).div_ceil(together),
    };
    let line = u64::from(column) * u64::from(args.heads) + u64::from(head);
    let x = Lines {
        from: args.high + line * u64::from(args.row_bytes),
        stride: u64::from(args.heads) * u64::from(args.row_bytes),
        bytes: args.row_bytes,
        count: args.rows - column,
    };
    let rest = Lines { from: args.low + line * u64::from(args.row_bytes), ..x };
    // Of the warp.
    let (down, across) = (16 * M as u32 * (warp % 2), 8 * N as u32 * (warp / 2));
    let busy = row + down < part.rows && column + across < args.rows;
    let pieces = args.row_bytes.div_ceil(PIECE);
    let work = Work::<K, M, A, P> { weights, x: [x, rest], pieces, busy, kind: PhantomData };
    let sums = work.sums(args.stages, warp);
    if busy {
        // Found again: kept, it would take registers that the sums need.
        let warp = unknown(warp);
        let (down, across) = (16 * M as u32 * (warp % 2), 8 * N as u32 * (warp / 2));
        Place::new(&args, unknown(block()), rows, columns).deliver(&args, &sums, down, across);
    }
}
