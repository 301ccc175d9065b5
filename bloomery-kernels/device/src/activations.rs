//! Rows of activations as floats in shared memory, normalised if asked for, for products with weights of floats.
//!
//! A row in shared memory is two *pieces* of 16 bytes for each unit of 8 values, `[2][units]`: lanes that take neighbouring units read
//! neighbouring pieces, without bank conflicts.

use super::abi::shape::Class;
use super::math::inverse_rms;
use super::rounding::{load8, scaled};
use super::simt::{
    barrier, divide, ld_global_f32, ld_global_f32x4, ld_shared_f32, ld_shared_u32x4, st_shared_f32,
    st_shared_u32x4, thread, threads, warp,
};

/// The rows that a warp or a block multiplies, as [`Class`] lays them out.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// Units of a row.
    pub(crate) units: u32,
}

impl Layout {
    #[inline(always)]
    pub(crate) fn new(class: Class, cols: u32) -> Self {
        Self { units: cols / class.unit() }
    }

    /// Piece `s` of unit `u` of the row at `row`.
    ///
    /// # Safety
    /// The row has such a unit.
    #[inline(always)]
    pub(crate) unsafe fn piece(self, row: u32, s: u32, u: u32) -> [u32; 4] {
        ld_shared_u32x4(row + 16 * (s * self.units + u))
    }
}

/// Where rows come from.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// `[rows][cols]` f32.
    pub(crate) x: u64,
    /// `[cols]` f32, or 0: no norm.
    pub(crate) gain: u64,
    pub(crate) eps: f32,
    pub(crate) cols: u32,
    pub(crate) rows: u32,
}

/// Rows to be brought into shared memory.
///
/// `x` and `gain` are aligned to 16 bytes and have the lengths that [`Source`] names; `cols` is a multiple of the class's block;
/// the block has 128 threads or more and `to` room for every row, each in [`Class::activation_bytes`].
pub(crate) struct Rows {
    pub(crate) class: Class,
    pub(crate) source: Source,
    /// A float for every row, if there is a norm: 8 at most.
    pub(crate) norms: u32,
    /// Room for the rows as floats, or of no bytes: they are read twice.
    pub(crate) raw: u32,
    pub(crate) raw_bytes: u32,
    pub(crate) to: u32,
}

impl Rows {
    /// Starts to bring the rows in.
    ///
    /// # Safety
    /// The contract of [`Rows`]; every thread of the block gets here after it has waited for whoever writes `x`.
    #[inline(always)]
    pub(crate) unsafe fn fetch(&self) {
        let Source { x, gain, cols, rows, .. } = self.source;
        if gain != 0 && self.raw_bytes != 0 {
            let mut at = thread();
            while at < rows * cols / 4 {
                st_shared_u32x4(
                    self.raw + 16 * at,
                    ld_global_f32x4(x + 16 * u64::from(at)).map(f32::to_bits),
                );
                at += threads();
            }
        }
    }

    /// This lane's eight values from column `at` on.
    #[inline(always)]
    unsafe fn values(&self, row: u32, at: u32) -> [f32; 8] {
        let Source { x, gain, cols, .. } = self.source;
        if at >= cols {
            [0.0; 8]
        } else if gain != 0 && self.raw_bytes != 0 {
            let at = self.raw + 4 * (row * cols + at);
            let ([a, b, c, d], [e, f, g, h]) = (ld_shared_u32x4(at), ld_shared_u32x4(at + 16));
            [a, b, c, d, e, f, g, h].map(f32::from_bits)
        } else {
            load8(x + 4 * (u64::from(row) * u64::from(cols) + u64::from(at)))
        }
    }

    /// Inverse norms of all rows.
    #[inline(always)]
    unsafe fn norms(&self) {
        let Source { x, eps, cols, rows, .. } = self.source;
        if self.raw_bytes != 0 {
            barrier();
        }
        let half = thread() / 16;
        if warp() * 2 < rows {
            // The second half of the last warp may have no row: it repeats another's.
            let row = if half < rows { half } else { rows - 1 };
            let inverse = if self.raw_bytes != 0 {
                inverse_rms(cols, eps, |at| ld_shared_f32(self.raw + 4 * (row * cols + at)))
            } else {
                let x = x + 4 * u64::from(row) * u64::from(cols);
                inverse_rms(cols, eps, |at| ld_global_f32(x + 4 * u64::from(at)))
            };
            if thread().is_multiple_of(16) && half < rows {
                st_shared_f32(self.norms + 4 * row, inverse);
            }
        }
        barrier();
    }

    /// Normalises. Ends with a barrier.
    ///
    /// # Safety
    /// The contract of [`Rows`]; every thread of the block gets here after [`fetch`](Self::fetch); nobody reads the rows before
    /// the end.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self) {
        if self.source.gain != 0 {
            self.norms();
        }
        self.floats();
        barrier();
    }

    #[inline(always)]
    unsafe fn inverse(&self, row: u32) -> f32 {
        if self.source.gain != 0 { ld_shared_f32(self.norms + 4 * row) } else { 1.0 }
    }

    #[inline(always)]
    unsafe fn floats(&self) {
        let Source { gain, cols, rows, .. } = self.source;
        let (stride, per_row) = (self.class.activation_bytes(cols), cols / 8);
        let mut at = thread();
        while at < per_row * rows {
            let (row, u) = divide(at, per_row);
            let mut values = self.values(row, 8 * u);
            if gain != 0 {
                values = scaled(values, self.inverse(row), load8(gain + 32 * u64::from(u)));
            }
            let bits = values.map(f32::to_bits);
            let to = self.to + row * stride;
            st_shared_u32x4(to + 16 * u, [bits[0], bits[1], bits[2], bits[3]]);
            st_shared_u32x4(to + 16 * (per_row + u), [bits[4], bits[5], bits[6], bits[7]]);
            at += threads();
        }
    }
}
