//! Scores of blocks: a block of threads has the queries of a few neighbouring rows in shared memory and goes through keys, of
//! which four lanes share each. A line is a head of a row.

use super::super::abi::attention::PAGE;
use super::super::abi::index::{IndexScoreArgs, SCORE_THREADS, SPREAD};
use super::super::math::inverse_rms;
use super::super::rope::{PAIRS, turned, turns};
use super::super::simt::{
    await_predecessors, barrier, block, divide, fma, lane, ld_global_f32, ld_global_f32x4, ld_global_u32,
    ld_shared_f32, ld_shared_u32x4, release_successor, shared_base, shfl_xor_f32, st_global_f32,
    st_shared_f32, thread, uniform_warp, warps,
};
use super::{len, of_page, page};

/// Neighbouring rows of one sequence.
struct Run {
    first: u32,
    rows: u32,
    sequence: u32,
    /// Blocks that one of them has to choose from; 0 if all of them see everything.
    blocks: u32,
}

/// See the module. `KEYS`: keys of a lane, `DEPTH`: fours of each that are loaded at once.
///
/// # Safety
/// The contract of `Select::launches`.
#[inline(always)]
pub(crate) unsafe fn index_score<const LINES: usize, const KEYS: usize, const DEPTH: usize>(
    args: IndexScoreArgs,
) {
    await_predecessors();
    release_successor();
    let cache = &args.cache;
    let (group, slice) = divide(block(), args.slices);
    let end = (args.group * (group + 1)).min(cache.rows);
    let mut first = args.group * group;
    while first < end {
        let run = run(&args, first, end);
        first += run.rows;
        let step = tile::<KEYS>();
        let mut at = step * slice;
        if at < run.blocks {
            barrier();
            stage::<LINES>(&args, &run);
            barrier();
        }
        while at < run.blocks {
            score::<LINES, KEYS, DEPTH>(&args, &run, at);
            at += step * args.slices;
        }
    }
}

/// Keys that a block of threads takes at once.
#[inline(always)]
const fn tile<const KEYS: usize>() -> u32 {
    SCORE_THREADS / SPREAD * KEYS as u32
}

/// The rows from `first` on that are of its sequence.
#[inline(always)]
unsafe fn run(args: &IndexScoreArgs, first: u32, end: u32) -> Run {
    let cache = &args.cache;
    let sequence_of = |row: u32| ld_global_u32(cache.sequences + 4 * u64::from(row));
    let sequence = sequence_of(first);
    let (mut rows, mut blocks) = (0, 0);
    while first + rows < end && sequence_of(first + rows) == sequence {
        let whole = len(cache, first + rows) >> cache.shift;
        if whole > args.keep && whole > blocks {
            blocks = whole;
        }
        rows += 1;
    }
    Run { first, rows, sequence, blocks }
}

/// Queries, normed and turned, and their weights behind them: a warp for a line.
#[inline(always)]
unsafe fn stage<const LINES: usize>(args: &IndexScoreArgs, run: &Run) {
    let (width, turning) = (args.cache.width, &args.turn);
    let lines = run.rows * args.heads;
    let weights = shared_base() + 4 * LINES as u32 * width;
    let mut line = uniform_warp();
    while line < lines {
        let number = number(args, run, line);
        let x = args.q + 4 * u64::from(number) * u64::from(width);
        let to = shared_base() + 4 * line * width;
        let mut inverse = 1.0;
        if args.gain != 0 {
            inverse = inverse_rms(width, args.eps, |at| ld_global_f32(x + 4 * u64::from(at)));
        }
        let load = |at: u32| {
            let value = ld_global_f32(x + 4 * u64::from(at));
            if args.gain == 0 {
                return value;
            }
            value * inverse * ld_global_f32(args.gain + 4 * u64::from(at))
        };
        let row = divide(line, args.heads).0;
        let (places, turns) = turns(turning, len(&args.cache, run.first + row) - 1);
        let mut j = 0;
        while j < PAIRS {
            if lane() + 32 * (j as u32) < turning.half {
                let pair = turned([load(places[j][0]), load(places[j][1])], turns[j]);
                st_shared_f32(to + 4 * places[j][0], pair[0]);
                st_shared_f32(to + 4 * places[j][1], pair[1]);
            }
            j += 1;
        }
        let mut rest = lane();
        while rest < width - 2 * turning.half {
            let at = if rest < turning.first { rest } else { rest + 2 * turning.half };
            st_shared_f32(to + 4 * at, load(at));
            rest += 32;
        }
        line += warps();
    }
    let mut line = thread();
    while line < lines {
        let mut weight = 1.0;
        if args.weights != 0 {
            let number = number(args, run, line);
            weight = ld_global_f32(args.weights + 4 * u64::from(number)) * args.scale;
        }
        st_shared_f32(weights + 4 * line, weight);
        line += SCORE_THREADS;
    }
}

/// The number of a line's head among those of all rows.
#[inline(always)]
unsafe fn number(args: &IndexScoreArgs, run: &Run, line: u32) -> u32 {
    let (row, head) = divide(line, args.heads);
    (run.first + row) * args.all + head
}

/// Scores of the keys from `at` on.
#[inline(always)]
unsafe fn score<const LINES: usize, const KEYS: usize, const DEPTH: usize>(
    args: &IndexScoreArgs,
    run: &Run,
    at: u32,
) {
    let (cache, width) = (&args.cache, args.cache.width);
    let (key, part) = (at + thread() / SPREAD, 4 * (thread() % SPREAD));
    // In fours of values: registers are short.
    let mut from = [0; KEYS];
    let mut k = 0;
    while k < KEYS {
        // Again the last one in place of those that are not there.
        let block = (key + SCORE_THREADS / SPREAD * k as u32).min(run.blocks - 1);
        let page = page(cache, run.sequence, block) * (cache.page_len / 4);
        from[k] = page + (cache.raw_len + of_page(cache, block) * width + part) / 4;
        k += 1;
    }
    let mut fits = [[0.0; KEYS]; LINES];
    let mut first = 0;
    while first < width {
        let mut values = [[[0.0; 4]; KEYS]; DEPTH];
        let mut i = 0;
        while i < DEPTH {
            let column = (first + 16 * i as u32).min(width - 16);
            k = 0;
            while k < KEYS {
                values[i][k] = ld_global_f32x4(cache.values + 16 * u64::from(from[k] + column / 4));
                k += 1;
            }
            i += 1;
        }
        i = 0;
        while i < DEPTH {
            let column = first + 16 * i as u32;
            if column < width {
                let query = shared_base() + 4 * (column + part);
                let mut line = 0;
                while line < LINES {
                    let q = ld_shared_u32x4(query + 4 * line as u32 * width).map(f32::from_bits);
                    k = 0;
                    while k < KEYS {
                        let mut d = 0;
                        while d < 4 {
                            fits[line][k] = fma(q[d], values[i][k][d], fits[line][k]);
                            d += 1;
                        }
                        k += 1;
                    }
                    line += 1;
                }
            }
            i += 1;
        }
        first += 16 * DEPTH as u32;
    }
    let mut sums = Sums { at, head: 0, row: run.first, sums: [0.0; KEYS] };
    // In pieces, each of which is small enough for the compiler to unroll.
    let mut from = 0;
    sums.add(args, run, &fits, from);
    from += PIECE;
    if from < LINES {
        sums.add(args, run, &fits, from);
        from += PIECE;
        sums.add(args, run, &fits, from);
        from += PIECE;
        sums.add(args, run, &fits, from);
    }
}

/// Lines that are added at once: a kernel has one or four times as many.
const PIECE: usize = 8;

/// Scores of a lane's keys and the row under way.
struct Sums<const KEYS: usize> {
    /// The first key of the block of threads.
    at: u32,
    head: u32,
    row: u32,
    sums: [f32; KEYS],
}

impl<const KEYS: usize> Sums<KEYS> {
    /// Adds the lines from `from` on, and writes the rows that end with one of them.
    #[inline(always)]
    unsafe fn add<const LINES: usize>(
        &mut self,
        args: &IndexScoreArgs,
        run: &Run,
        fits: &[[f32; KEYS]; LINES],
        from: usize,
    ) {
        let weights = shared_base() + 4 * LINES as u32 * args.cache.width;
        let mut line = from;
        while line < from + PIECE {
            let weight = ld_shared_f32(weights + 4 * line as u32);
            let mut k = 0;
            while k < KEYS {
                let mut fit = fits[line][k];
                fit += shfl_xor_f32(fit, 1);
                fit += shfl_xor_f32(fit, 2);
                self.sums[k] = fma(weight, if fit > 0.0 { fit } else { 0.0 }, self.sums[k]);
                k += 1;
            }
            self.head += 1;
            if self.head == args.heads {
                let to = args.scores + 4 * u64::from(self.row) * u64::from(args.most);
                k = 0;
                while k < KEYS {
                    let block = self.at + thread() / SPREAD + SCORE_THREADS / SPREAD * k as u32;
                    if thread().is_multiple_of(SPREAD)
                        && self.row < run.first + run.rows
                        && block < run.blocks
                    {
                        let to = to + 4 * u64::from(block);
                        let before = if args.add != 0 { ld_global_f32(to) } else { 0.0 };
                        st_global_f32(to, before + self.sums[k]);
                    }
                    self.sums[k] = 0.0;
                    k += 1;
                }
                (self.head, self.row) = (0, self.row + 1);
            }
            line += 1;
        }
    }
}

const _: () = assert!(PAGE == 64 && SPREAD == 4);
