//! Activations rounded to int8 blocks: what the integer dots of quantised weights read.
//!
//! Both forms round alike: for a block with largest magnitude `amax`, `d = amax / 127`,
//! `q = round_ties_even(x * (127 / amax))`. Ties go to even because that is the one rounding every vector unit has.
//! ggml's Q8_K takes `-127 / m` of the signed maximum `m`; with the symmetric range -127..=127 that only moves a sign
//! from `q` to `d`, so it is the same rounding.
//!
//! A block whose `amax` is below `127 / f32::MAX` is stored as zeros. A block that holds a NaN or an infinity
//! has `d = NaN` and zero `q`, so every product with it is NaN. A row never depends on other rows.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Isa;

#[cfg(test)]
pub(super) mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Values in the groups that `sums32` sums.
const GROUP: usize = 32;

/// Block length of an activation row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// One scale for 32 values; read by the 32-value weight formats.
    #[default]
    Q8x32,
    /// One scale for 256 values and a sum for every 16; read by the K-quants.
    Q8x256,
}

impl Form {
    /// Values that share a scale.
    pub fn block_len(self) -> usize {
        match self {
            Self::Q8x32 => 32,
            Self::Q8x256 => 256,
        }
    }
}

/// 64 values on one cache line: vector loads of whole blocks never straddle two lines.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([i8; 64]);

/// Rows of activations as int8 blocks; the buffers are kept between uses.
#[derive(Debug, Default)]
pub struct Quantized {
    form: Form,
    rows: usize,
    cols: usize,
    q: Vec<Line>,
    scales: Vec<f32>,
    sums32: Vec<i16>,
    sums16: Vec<i16>,
    claimed: Vec<AtomicBool>,
}

impl Quantized {
    /// Quantises `x`, `rows` rows of `cols` values.
    ///
    /// # Panics
    /// When `x` does not hold `rows * cols` values or `cols` is no multiple of the form's block.
    pub fn fill(&mut self, isa: Isa, x: &[f32], rows: usize, cols: usize, form: Form) {
        assert_eq!(x.len(), rows * cols, "activations to quantise");
        let fill = self.start(rows, cols, form);
        for row in 0..rows {
            fill.row(isa, row, &x[row * cols..(row + 1) * cols]);
        }
    }

    /// Takes the shape of `rows` rows of `cols` values and lets any number of threads quantise one row each.
    /// A row that nobody fills keeps unspecified (but initialised) values.
    ///
    /// # Panics
    /// When `cols` is no multiple of the form's block.
    pub fn start(&mut self, rows: usize, cols: usize, form: Form) -> Fill<'_> {
        assert_eq!(cols % form.block_len(), 0, "activation row of {cols} in {form:?}");
        (self.form, self.rows, self.cols) = (form, rows, cols);
        let values = rows * cols;
        self.q.resize(values.div_ceil(64), Line([0; 64]));
        self.scales.resize(values / form.block_len(), 0.0);
        self.sums32.resize(values / GROUP, 0);
        self.sums16.resize(if form == Form::Q8x256 { values / 16 } else { 0 }, 0);
        self.claimed.resize_with(rows, AtomicBool::default);
        self.claimed.iter_mut().for_each(|claimed| *claimed.get_mut() = false);
        Fill {
            form,
            cols,
            q: self.q.as_mut_ptr().cast(),
            scales: self.scales.as_mut_ptr(),
            sums32: self.sums32.as_mut_ptr(),
            sums16: self.sums16.as_mut_ptr(),
            claimed: &self.claimed,
        }
    }

    /// Block form of the rows.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The int8 values of a row, in natural order.
    pub fn values(&self, row: usize) -> &[i8] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: `q` holds at least `rows * cols` values in consecutive `[i8; 64]` lines without padding, and
        // `row < rows`.
        unsafe {
            let start = self.q.as_ptr().cast::<i8>().add(row * self.cols);
            std::slice::from_raw_parts(start, self.cols)
        }
    }

    /// The scale of every block of a row.
    pub fn scales(&self, row: usize) -> &[f32] {
        let blocks = self.cols / self.form.block_len();
        &self.scales[row * blocks..(row + 1) * blocks]
    }

    /// The sum of every 32 values of a row.
    pub fn sums32(&self, row: usize) -> &[i16] {
        let groups = self.cols / GROUP;
        &self.sums32[row * groups..(row + 1) * groups]
    }

    /// The sum of every 16 values of a row; empty unless the form is [`Form::Q8x256`].
    #[must_use]
    pub fn sums16(&self, row: usize) -> &[i16] {
        let groups = if self.form == Form::Q8x256 { self.cols / 16 } else { 0 };
        &self.sums16[row * groups..(row + 1) * groups]
    }
}

/// Rows that are being quantised, from any number of threads.
pub struct Fill<'a> {
    form: Form,
    cols: usize,
    q: *mut i8,
    scales: *mut f32,
    sums32: *mut i16,
    sums16: *mut i16,
    claimed: &'a [AtomicBool],
}

// SAFETY: the pointers lead into buffers that the `Quantized` behind `'a` keeps borrowed exclusively; `row` writes
// only the parts of the row that it claimed, and a row can be claimed once.
unsafe impl Send for Fill<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Fill<'_> {}

impl Fill<'_> {
    /// Quantises row `row` from `x`.
    ///
    /// # Panics
    /// When the row was filled before, is out of range, or `x` is not one row.
    pub fn row(&self, isa: Isa, row: usize, x: &[f32]) {
        assert_eq!(x.len(), self.cols, "one row of activations");
        assert!(!self.claimed[row].swap(true, Ordering::Relaxed), "row {row} is quantised twice");
        let (blocks, groups) = (self.cols / self.form.block_len(), self.cols / GROUP);
        let fine = if self.form == Form::Q8x256 { self.cols / 16 } else { 0 };
        // SAFETY: `start` sized every buffer for `claimed.len()` rows and `row` is one of them; the claim above makes
        // this call the only one that touches the row's part while the buffers are borrowed.
        let part = unsafe {
            RowPart {
                q: std::slice::from_raw_parts_mut(self.q.add(row * self.cols), self.cols),
                scales: std::slice::from_raw_parts_mut(self.scales.add(row * blocks), blocks),
                sums32: std::slice::from_raw_parts_mut(self.sums32.add(row * groups), groups),
                sums16: std::slice::from_raw_parts_mut(self.sums16.add(row * fine), fine),
            }
        };
        match self.form {
            Form::Q8x32 => quantize_row::<32>(isa, x, part),
            Form::Q8x256 => quantize_row::<256>(isa, x, part),
        }
    }
}

/// Where one row goes.
struct RowPart<'a> {
    q: &'a mut [i8],
    scales: &'a mut [f32],
    sums32: &'a mut [i16],
    sums16: &'a mut [i16],
}

fn quantize_row<const LEN: usize>(isa: Isa, x: &[f32], part: RowPart<'_>) {
    #[cfg(target_arch = "x86_64")]
    {
        let isa = isa.min(Isa::detect());
        if isa >= Isa::Avx512 {
            // SAFETY: this tier means that the machine has AVX-512 F, BW, VL, DQ and VNNI.
            return unsafe { x86::row_avx512::<LEN>(x, part) };
        }
        if isa >= Isa::Avx2 {
            // SAFETY: this tier means that the machine has AVX2 and FMA.
            return unsafe { x86::row_avx2::<LEN>(x, part) };
        }
    }
    let _ = isa;
    round_row::<LEN>(x, part);
}

/// The definition, and the one text of every tier: the compiler vectorises it well.
#[inline(always)]
fn round_row<const LEN: usize>(x: &[f32], part: RowPart<'_>) {
    let (xs, qs) = (x.as_chunks::<LEN>().0, part.q.as_chunks_mut::<LEN>().0);
    for ((x, q), scale) in xs.iter().zip(qs).zip(part.scales) {
        // Magnitudes order as integers do, with infinities and NaNs above every number.
        let top = x.iter().map(|v| v.to_bits() & 0x7fff_ffff).fold(0, u32::max);
        let (d, inverse) = steps(top);
        *scale = d;
        if inverse == 0.0 {
            q.fill(0);
            continue;
        }
        for (q, x) in q.iter_mut().zip(x) {
            let rounded = (x * inverse).round_ties_even();
            // SAFETY: `inverse` is not 0, so every x is finite with |x| <= amax, and two roundings take
            // amax * (127 / amax) to less than 127.5: the value is an integer in -127..=127.
            *q = unsafe { rounded.to_int_unchecked::<i32>() } as i8;
        }
    }
    sum_groups(part.q.as_chunks::<32>().0, part.sums32);
    sum_groups(part.q.as_chunks::<16>().0, part.sums16);
}

/// The scale of a block and the factor that leads to its integers (0: all of them are 0), from the bits of its
/// largest magnitude.
#[inline(always)]
fn steps(top: u32) -> (f32, f32) {
    let amax = f32::from_bits(top);
    let inverse = 127.0 / amax;
    if !amax.is_finite() {
        (f32::NAN, 0.0)
    } else if inverse.is_finite() {
        (amax / 127.0, inverse)
    } else {
        (0.0, 0.0)
    }
}

#[inline(always)]
fn sum_groups<const LEN: usize>(groups: &[[i8; LEN]], sums: &mut [i16]) {
    for (group, sum) in groups.iter().zip(sums) {
        *sum = group.iter().map(|&q| i16::from(q)).sum();
    }
}
