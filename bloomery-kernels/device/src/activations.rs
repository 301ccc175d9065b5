//! Rows of activations as floats in shared memory, normalised if asked for, for products with weights of floats; and the rounding
//! of rows to int8 blocks, as the CPU rounds them.
//!
//! A row in shared memory is two *pieces* of 16 bytes for each unit of 8 values, `[2][units]`: lanes that take neighbouring units read
//! neighbouring pieces, without bank conflicts.

use super::abi::shape::Class;
use super::math::inverse_rms;
use super::simt::{
    barrier, divide, ld_global_f32, ld_global_f32x4, ld_shared_f32, ld_shared_u32x4, round, shfl_xor,
    st_shared_f32, st_shared_u32x4, thread, threads, warp, warp_max,
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

/// The scale of a block and the factor that leads to its integers (0: all of them are 0), from the bits of its largest
/// magnitude.
#[inline(always)]
pub(crate) fn steps(top: u32) -> (f32, f32) {
    let amax = f32::from_bits(top);
    let inverse = 127.0 / amax;
    if top >= 0x7f80_0000 {
        (f32::NAN, 0.0)
    } else if inverse < f32::INFINITY {
        (amax / 127.0, inverse)
    } else {
        (0.0, 0.0)
    }
}

/// Eight neighbouring values of a row and what they are rounded to.
pub(crate) struct Eight {
    pub(crate) values: [f32; 8],
    pub(crate) words: [u32; 2],
    /// The block's scale.
    pub(crate) scale: f32,
    /// The sum of the rounded values of this lane and its neighbour: 16 values.
    pub(crate) sum: i32,
}

#[inline(always)]
fn eight(low: [f32; 4], high: [f32; 4]) -> [f32; 8] {
    [low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]]
}

/// Eight floats of global memory.
///
/// # Safety
/// They are readable, aligned to 16 bytes.
#[inline(always)]
pub(crate) unsafe fn load8(at: u64) -> [f32; 8] {
    eight(ld_global_f32x4(at), ld_global_f32x4(at + 16))
}

/// `x * inverse * gain`, as the CPU's norm has it.
#[inline(always)]
pub(crate) fn scaled(values: [f32; 8], inverse: f32, gains: [f32; 8]) -> [f32; 8] {
    let (mut out, mut i) = ([0.0; 8], 0);
    while i < 8 {
        out[i] = values[i] * inverse * gains[i];
        i += 1;
    }
    out
}

/// Rounds the warp's 256 values in blocks of `BLOCK` (32 or 256).
///
/// # Safety
/// All lanes of the warp get here.
#[inline(always)]
pub(crate) unsafe fn round8<const BLOCK: u32>(values: [f32; 8]) -> Eight {
    let mut top = 0;
    let mut i = 0;
    while i < 8 {
        // Magnitudes order as integers do, with infinities and NaNs above every number.
        let bits = values[i].to_bits() & 0x7fff_ffff;
        top = if bits > top { bits } else { top };
        i += 1;
    }
    if BLOCK == 256 {
        top = warp_max(top);
    } else {
        let other = shfl_xor(top, 1);
        top = if other > top { other } else { top };
        let other = shfl_xor(top, 2);
        top = if other > top { other } else { top };
    }
    let (scale, inverse) = steps(top);
    let (mut words, mut sum) = ([0_u32; 2], 0);
    let mut i = 0;
    while i < 8 {
        // With an inverse of 0 a value may be NaN or infinite: its product must not be looked at.
        let q = if inverse == 0.0 { 0 } else { round(values[i] * inverse) };
        sum += q;
        words[i / 4] |= (q as u32 & 0xff) << (8 * (i % 4));
        i += 1;
    }
    sum += shfl_xor(sum as u32, 1) as i32;
    Eight { values, words, scale, sum }
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
            eight(ld_shared_u32x4(at).map(f32::from_bits), ld_shared_u32x4(at + 16).map(f32::from_bits))
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
