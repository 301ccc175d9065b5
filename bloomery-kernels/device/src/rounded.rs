//! Rows of activations, normalised if asked for and rounded to int8: into shared memory for the kernels of few rows, into global
//! memory for those of many. See [`rounded`](super::abi::rounded) for the order.
//!
//! The sum of squares is a tree in each group of 256 values and a tree over the groups: its bits do not depend on how many warps
//! take part.

use super::abi::activation::SIGMOID;
use super::abi::rounded::{Layout, Rounded, SUMS};
use super::math::{exp, gated};
use super::rounding::{Eight, load8, round8, scaled};
use super::simt::{
    WARP, barrier, copy_async4, copy_async16, copy_commit, copy_wait, divide, lane, ld_shared_f32,
    shfl_xor_f32, sqrt, st_shared_f32, st_shared_u16, st_shared_u32, thread, threads, to_half, warp, warps,
};
use super::tiles::Columns;

/// Where a lane's two words of a block go, in bytes; the second is 16 further.
#[inline(always)]
pub(crate) fn word_place() -> u32 {
    64 * (lane() / 8) + 4 * (lane() % 8 / 2) + 32 * (lane() % 2)
}

/// Where the sum of lane pair `lane() / 2` goes, in bytes.
#[inline(always)]
pub(crate) fn sum_place() -> u32 {
    let s = lane() / 2;
    2 * (4 * (s % 8 / 2) + 2 * (s / 8) + s % 2)
}

/// What rows are made of.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// `[rows][cols]` f32, or 0 where rows are copied.
    pub(crate) x: u64,
    /// `[cols]` f32, or 0: no norm.
    pub(crate) gain: u64,
    /// `[rows][cols]` f32, or 0: `x` is what is rounded. Else it is `act(x) * up`.
    pub(crate) up: u64,
    pub(crate) act: u32,
    /// Of `x` and of `up`, but with a sigmoid.
    pub(crate) limit: f32,
    pub(crate) eps: f32,
    pub(crate) cols: u32,
}

impl Source {
    /// This lane's values of a group of 256 of a row.
    ///
    /// # Safety
    /// The row and, if the group reaches beyond it, zeros in its place.
    #[inline(always)]
    pub(crate) unsafe fn values(&self, row: u32, group: u32) -> [f32; 8] {
        let at = 256 * group + 8 * lane();
        if at >= self.cols {
            return [0.0; 8];
        }
        let first = 4 * (u64::from(row) * u64::from(self.cols) + u64::from(at));
        let mut values = load8(self.x + first);
        if self.up != 0 {
            let up = load8(self.up + first);
            let mut i = 0;
            while i < 8 {
                let z = values[i];
                values[i] = if self.act == SIGMOID {
                    1.0 / (1.0 + exp(0.0 - z)) * up[i]
                } else {
                    gated(self.act, self.limit, z, up[i])
                };
                i += 1;
            }
        }
        values
    }

    /// This lane's gains of a group.
    ///
    /// # Safety
    /// There is a norm.
    #[inline(always)]
    pub(crate) unsafe fn gains(&self, group: u32) -> [f32; 8] {
        let at = 256 * group + 8 * lane();
        if at < self.cols && self.gain != 0 && self.x != 0 {
            load8(self.gain + 4 * u64::from(at))
        } else {
            [0.0; 8]
        }
    }
}

/// The sum of the warp's squares.
///
/// # Safety
/// All lanes get here.
#[inline(always)]
pub(crate) unsafe fn square_sum(values: [f32; 8]) -> f32 {
    let (mut sum, mut i) = (0.0, 0);
    while i < 8 {
        sum = super::simt::fma(values[i], values[i], sum);
        i += 1;
    }
    let mut mask = 16;
    while mask > 0 {
        sum += shfl_xor_f32(sum, mask);
        mask /= 2;
    }
    sum
}

/// `1 / sqrt(mean + eps)` from the groups' sums of squares in shared memory: a tree over 32 sums of every 32nd group.
///
/// # Safety
/// All lanes of the warp get here; `sums` are there.
#[inline(always)]
pub(crate) unsafe fn inverse_rms(sums: u32, groups: u32, cols: u32, eps: f32) -> f32 {
    let (mut sum, mut group) = (0.0, lane());
    while group < groups {
        sum += ld_shared_f32(sums + 4 * group);
        group += WARP;
    }
    let mut mask = 16;
    while mask > 0 {
        sum += shfl_xor_f32(sum, mask);
        mask /= 2;
    }
    1.0 / sqrt(sum / cols as f32 + eps)
}

/// Rows that a block rounds into its shared memory.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) source: Source,
    pub(crate) layout: Layout,
    /// The rows.
    pub(crate) at: u32,
    /// A float for every group of every row, if there is a norm.
    pub(crate) squares: u32,
}

impl Rows {
    /// This warp's first group's gains: weights, which may be read before anything else has finished.
    ///
    /// # Safety
    /// `gain` has a value for every column.
    #[inline(always)]
    pub(crate) unsafe fn first_gains(&self) -> [f32; 8] {
        self.source.gains(divide(warp(), self.layout.blocks).1)
    }

    /// This lane's values of the warp's first group of `rows` rows, so that they are on their way early.
    ///
    /// # Safety
    /// Every thread of the block gets here, after whoever writes the source.
    #[inline(always)]
    pub(crate) unsafe fn first_values(&self, rows: u32) -> [f32; 8] {
        let (row, group) = divide(warp(), self.layout.blocks);
        if self.source.x != 0 && row < rows { self.source.values(row, group) } else { [0.0; 8] }
    }

    /// Fills rows `0..rows`: of `rounded` if they are there already. Ends with a barrier.
    ///
    /// # Safety
    /// Every thread of the block gets here, with what `first_values` and `first_gains` gave; nobody reads the rows before the
    /// end; there is room.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, rows: u32, first: ([f32; 8], [f32; 8]), rounded: &Rounded) {
        if self.source.x == 0 {
            self.copy(rows, rounded);
        } else {
            self.round(rows, first);
        }
        barrier();
    }

    /// Starts and awaits copies of rounded rows.
    #[inline(always)]
    unsafe fn copy(&self, rows: u32, rounded: &Rounded) {
        let layout = self.layout;
        let part = |from: u64, to: u32, stride: u32, pieces: u32| {
            let mut at = thread();
            while at < rows * pieces {
                let (row, piece) = divide(at, pieces);
                copy_async16(self.at + to + row * stride + 16 * piece, from + 16 * u64::from(at));
                at += threads();
            }
        };
        part(rounded.values, 0, layout.values_stride(), 16 * layout.blocks);
        if layout.scales == 1 {
            part(rounded.sums, layout.sums(), layout.sums_stride(), 2 * layout.blocks);
        }
        let mut at = thread();
        while at < rows * layout.scales * layout.blocks {
            copy_async4(self.at + layout.scales_at() + 4 * at, rounded.scales + 4 * u64::from(at));
            at += threads();
        }
        copy_commit();
        copy_wait(0);
    }

    #[inline(always)]
    unsafe fn round(&self, rows: u32, (mut values, first_gains): ([f32; 8], [f32; 8])) {
        let (source, groups) = (&self.source, self.layout.blocks);
        let all = rows * groups;
        if source.gain != 0 {
            let mut at = warp();
            let mut now = values;
            while at < all {
                let sum = square_sum(now);
                if lane() == 0 {
                    st_shared_f32(self.squares + 4 * at, sum);
                }
                at += warps();
                if at < all {
                    let (row, group) = divide(at, groups);
                    now = source.values(row, group);
                }
            }
            barrier();
        }
        let (mut at, mut gains) = (warp(), first_gains);
        while at < all {
            let (row, group) = divide(at, groups);
            let next = at + warps();
            let now = values;
            if next < all {
                // On their way while these are rounded.
                let (row, group) = divide(next, groups);
                values = source.values(row, group);
            }
            let now = if source.gain == 0 { now } else { scaled(now, self.inverse(row), gains) };
            if next < all && source.gain != 0 {
                gains = source.gains(divide(next, groups).1);
            }
            self.store(row, group, round8(now, self.layout.scales));
            at = next;
        }
    }

    #[inline(always)]
    unsafe fn inverse(&self, row: u32) -> f32 {
        let Source { cols, eps, .. } = self.source;
        inverse_rms(self.squares + 4 * row * self.layout.blocks, self.layout.blocks, cols, eps)
    }

    #[inline(always)]
    unsafe fn store(&self, row: u32, group: u32, eight: Eight) {
        let layout = self.layout;
        let to = self.at + row * layout.values_stride() + 256 * group + word_place();
        st_shared_u32(to, eight.words[0]);
        st_shared_u32(to + 16, eight.words[1]);
        let scales = self.at + layout.scales_at() + row * layout.scales_stride() + 4 * layout.scales * group;
        if layout.scales == 1 {
            if lane().is_multiple_of(2) {
                let sums = self.at + layout.sums() + row * layout.sums_stride() + SUMS * group;
                st_shared_u16(sums + sum_place(), to_half(eight.sum as f32).into());
            }
            if lane() == 0 {
                st_shared_f32(scales, eight.scale);
            }
        } else if lane().is_multiple_of(4) {
            st_shared_f32(scales + lane(), eight.scale);
        }
    }
}

/// What a lane multiplies the first block of the rows at `at` with: `own` is its row, `results` those that its results belong to.
#[inline(always)]
pub(crate) fn columns(layout: Layout, at: u32, own: u32, results: [u32; 2]) -> Columns {
    let t = lane() % 4;
    let scales = at + layout.scales_at();
    Columns {
        values: at + own * layout.values_stride() + 16 * t,
        sums: at + layout.sums() + own * layout.sums_stride() + 8 * t,
        scales: [scales + results[0] * layout.scales_stride(), scales + results[1] * layout.scales_stride()],
        scale_bytes: 4 * layout.scales,
    }
}
