//! Dot products of weight rows with activation rows, straight from the file's block layout.
//!
//! `out[i][r] = sum_c w[r][c] * x[i][c]` for a range of weight rows and any choice of activation rows. Three kinds of
//! product, each defined in `scalar`: exact integers per block of 256 ([`Form::Q8x256`]), exact integers per 4
//! values of a block of 32 ([`Form::Q8x32`]), and plain floats. Formats without an integer kernel are dequantised a
//! row at a time and take the float product, as does every format when the activations come as floats.
//!
//! A vector kernel reads and unpacks its weights once for up to [`MAX_ROWS`] activation rows.
//!
//! # Contract of the vector code
//!
//! The kernels of the vector tiers are `#[target_feature]` functions over raw pointers. Their callers guarantee:
//! 1. the machine has the tier's features ([`Isa`] is at most [`Isa::detect`]);
//! 2. `Weights` holds whole rows of whole blocks of the kernel's format, at least one row;
//! 3. every index in `rows` of `Ints` or `Floats` is a row of the activations, which have the weights' columns
//!    and the kernel's form; there are as many as `batch` says;
//! 4. `Target` has room for its `rows` (the first indices; the others are padding) times every weight row.
//!
//! The kernels read nothing outside the blocks of their rows: a matrix may end at the end of a mapping.

use std::{marker::PhantomData, ops::Range};

use bloomery_gguf::{Format, blocks};

use super::{
    Isa, Matrix,
    matrix::read_row,
    quantized::{Form, Quantized},
};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod iq4;
#[cfg(target_arch = "x86_64")]
mod kquants;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod small;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Activation rows that one pass over the weights serves.
pub const MAX_ROWS: usize = 8;

/// Bytes of weights that stay in the first-level cache while further activation rows pass over them.
const TILE_BYTES: usize = 24 << 10;

/// Activations.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// In the form that [`form`] names for the weights' format.
    Quantized(&'a Quantized),
    /// Rows of as many floats as the weights have columns; any weight format takes them.
    Floats(&'a [f32]),
}

/// Which activation rows to multiply, in which order.
#[derive(Debug, Clone)]
pub enum Pick<'a> {
    /// Neighbouring rows.
    Range(Range<usize>),
    /// Any rows: an expert's tokens.
    List(&'a [u32]),
}

impl Pick<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::List(list) => list.len(),
        }
    }

    fn get(&self, i: usize) -> usize {
        match self {
            Self::Range(range) => range.start + i,
            Self::List(list) => list[i] as usize,
        }
    }

    fn max(&self) -> Option<usize> {
        match self {
            Self::Range(range) => range.clone().last(),
            Self::List(list) => list.iter().max().map(|&row| row as usize),
        }
    }
}

/// The form in which weights of `format` want their activations; `None`: as floats.
pub fn form(format: Format) -> Option<Form> {
    match format {
        Format::Q8_0 | Format::Q4_0 | Format::Q4_1 | Format::Q5_0 | Format::Q5_1 => Some(Form::Q8x32),
        Format::IQ4_NL | Format::MXFP4 => Some(Form::Q8x32),
        Format::Q2_K | Format::Q3_K | Format::Q4_K | Format::Q5_K | Format::Q6_K => Some(Form::Q8x256),
        Format::IQ4_XS => Some(Form::Q8x256),
        _ => None,
    }
}

/// Whether [`dots`] multiplies weights of `format`: every format but the plain integers.
pub fn supports(format: Format) -> bool {
    !matches!(format, Format::I8 | Format::I16 | Format::I32 | Format::I64)
}

/// Writes `out[i * stride + r]`, the product of activation row `pick[i]` and weight row `rows.start + r`, for every
/// picked row and every weight row of `rows`.
///
/// # Panics
/// When the shapes do not fit, the activations are in another form than the weights want, or [`supports`] refuses the
/// format.
pub fn dots(
    isa: Isa,
    w: &Matrix<'_>,
    rows: Range<usize>,
    x: Input<'_>,
    pick: Pick<'_>,
    out: &mut [f32],
    stride: usize,
) {
    let (picked, width) = (pick.len(), rows.len());
    if picked == 0 || width == 0 {
        return;
    }
    let needed = (picked - 1).checked_mul(stride).and_then(|start| start.checked_add(width));
    let fits = stride >= width && needed.is_some_and(|needed| needed <= out.len());
    assert!(fits, "room for {picked} x {width} products");
    // SAFETY: `out` is borrowed exclusively and has room for `picked` rows of `width` at distance `stride`.
    unsafe { dots_raw(isa, w, rows, x, pick, out.as_mut_ptr(), stride) }
}

/// [`dots`] into a buffer that several threads write at once, each its own weight rows.
///
/// # Safety
/// For every `i < pick.len()` the floats `out + i * stride ..+ rows.len()` are valid for writes and nothing else
/// accesses them during the call.
///
/// # Panics
/// As [`dots`].
pub(crate) unsafe fn dots_raw(
    isa: Isa,
    w: &Matrix<'_>,
    rows: Range<usize>,
    x: Input<'_>,
    pick: Pick<'_>,
    out: *mut f32,
    stride: usize,
) {
    let (isa, format, cols) = (isa.min(Isa::detect()), w.format(), w.cols());
    assert!(rows.end <= w.rows(), "weight rows {rows:?} of {}", w.rows());
    let x_rows = match x {
        Input::Quantized(q) => {
            assert_eq!((form(format), cols), (Some(q.form()), q.cols()), "activations for {format}");
            q.rows()
        }
        Input::Floats(x) => x.len().checked_div(cols).unwrap_or(usize::MAX),
    };
    assert!(pick.max().is_none_or(|row| row < x_rows), "activation rows {pick:?} of {x_rows}");
    // At least some rows, however long they are.
    let tile = (TILE_BYTES / w.row_bytes().max(1)).max(1).next_multiple_of(8);
    let limit = match x {
        Input::Quantized(q) if q.form() == Form::Q8x256 => MAX_ROWS,
        _ => 4,
    };
    let bytes = &w.data()[rows.start * w.row_bytes()..rows.end * w.row_bytes()];
    let stream = Stream { end: bytes.as_ptr_range().end, start: bytes.as_ptr() };
    let mut buffer = Vec::new();
    let mut at = rows.start;
    while at < rows.end {
        let tile = at..rows.end.min(at + tile);
        let mut weights = Weights {
            format,
            row_bytes: w.row_bytes(),
            rows: tile.len(),
            data: &w.data()[tile.start * w.row_bytes()..tile.end * w.row_bytes()],
            stream,
        };
        let floats =
            matches!(x, Input::Floats(_)) && !matches!(format, Format::F32 | Format::F16 | Format::BF16);
        if floats {
            buffer.resize(tile.len() * cols, 0.0);
            let rows = weights.data.chunks_exact(weights.row_bytes);
            rows.zip(buffer.chunks_exact_mut(cols)).for_each(|(row, values)| read_row(format, row, values));
            let data = bytemuck::cast_slice(&buffer);
            let stream = Stream { end: data.as_ptr_range().end, start: data.as_ptr() };
            weights = Weights { format: Format::F32, row_bytes: 4 * cols, rows: tile.len(), data, stream };
        }
        let mut done = 0;
        while done < pick.len() {
            let (count, padded) = batch(pick.len() - done, limit);
            let picked: [usize; MAX_ROWS] = std::array::from_fn(|i| pick.get(done + i.min(count - 1)));
            // SAFETY: row `done + i` of `out` and its columns `at - rows.start ..+ tile.len()` are inside what the
            // caller passed.
            let start = unsafe { out.add(done * stride + at - rows.start) };
            let target = Target { out: start, stride, rows: count, width: tile.len(), life: PhantomData };
            match x {
                Input::Quantized(q) => ints(isa, weights, Ints { q, rows: &picked[..padded] }, target),
                Input::Floats(x) => float(isa, weights, Floats { x, cols, rows: &picked[..padded] }, target),
            }
            done += count;
        }
        at = tile.end;
    }
}

/// How many of `left` activation rows the next pass takes, and for how many rows its kernel is made.
///
/// Kernels exist for 1, 2, 4 and, up to `limit`, 8 rows. One idle row costs less than another pass over the weights,
/// which are in the first-level cache by then but have to be unpacked again. With sixteen sums a product there are
/// registers for four rows; eight took as long as twice four (F16) or a third longer (Q8_0).
fn batch(left: usize, limit: usize) -> (usize, usize) {
    match left.min(limit) {
        left @ 0..=2 => (left, left),
        3 => (3, 4),
        4..=6 => (4, 4),
        left => (left, 8),
    }
}

/// Bytes that are asked for ahead of use, beyond the rows that are in use.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 2048;

/// The weights of a call, which are asked for in the order of memory: the hardware's prefetcher follows that, too.
/// (Each of four rows in its own order, out of memory on one thread: Q4_K 7.6 GB/s, so 9.3; Q3_K 6.5 and 7.6.)
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only the vector code asks ahead"))]
#[derive(Debug, Clone, Copy)]
struct Stream {
    start: *const u8,
    end: *const u8,
}

impl Stream {
    /// Where to ask when `at` is due: after the end at the start, which is in a cache by then. Another thread's rows
    /// may come next.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn at(self, at: *const u8) -> *const u8 {
        if at < self.end { at } else { self.start.wrapping_add(at.addr() - self.end.addr()) }
    }
}

fn ints(isa: Isa, w: Weights<'_>, x: Ints<'_>, out: Target<'_>) {
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx2 {
        // SAFETY: `dots_raw` lowered `isa` to what the machine has and checked the shapes of rows, picks and output.
        unsafe {
            match w.format {
                Format::Q8_0 => return x86::narrow::<small::Q8_0>(isa, w, x, out),
                Format::Q4_0 => return x86::narrow::<small::Q4_0>(isa, w, x, out),
                Format::Q4_1 => return x86::narrow::<small::Q4_1>(isa, w, x, out),
                Format::Q5_0 => return x86::narrow::<small::Q5_0>(isa, w, x, out),
                Format::Q5_1 => return x86::narrow::<small::Q5_1>(isa, w, x, out),
                Format::IQ4_NL => return x86::narrow::<small::IQ4NL>(isa, w, x, out),
                Format::MXFP4 => return x86::narrow::<small::MXFP4>(isa, w, x, out),
                Format::Q2_K => return x86::wide::<kquants::Q2K>(isa, w, x, out),
                Format::Q3_K => return x86::wide::<kquants::Q3K>(isa, w, x, out),
                Format::Q4_K => return x86::wide::<kquants::Q4K>(isa, w, x, out),
                Format::Q5_K => return x86::wide::<kquants::Q5K>(isa, w, x, out),
                Format::Q6_K => return x86::wide::<kquants::Q6K>(isa, w, x, out),
                Format::IQ4_XS => return x86::wide::<iq4::IQ4XS>(isa, w, x, out),
                _ => {}
            }
        }
    }
    let _ = isa;
    match w.format {
        Format::Q8_0 => scalar::narrow::<blocks::BlockQ8_0>(w, x, out),
        Format::Q4_0 => scalar::narrow::<blocks::BlockQ4_0>(w, x, out),
        Format::Q4_1 => scalar::narrow::<blocks::BlockQ4_1>(w, x, out),
        Format::Q5_0 => scalar::narrow::<blocks::BlockQ5_0>(w, x, out),
        Format::Q5_1 => scalar::narrow::<blocks::BlockQ5_1>(w, x, out),
        Format::IQ4_NL => scalar::narrow::<blocks::BlockIQ4NL>(w, x, out),
        Format::MXFP4 => scalar::narrow::<blocks::BlockMXFP4>(w, x, out),
        Format::Q2_K => scalar::wide::<blocks::BlockQ2K>(w, x, out),
        Format::Q3_K => scalar::wide::<blocks::BlockQ3K>(w, x, out),
        Format::Q4_K => scalar::wide::<blocks::BlockQ4K>(w, x, out),
        Format::Q5_K => scalar::wide::<blocks::BlockQ5K>(w, x, out),
        Format::Q6_K => scalar::wide::<blocks::BlockQ6K>(w, x, out),
        Format::IQ4_XS => scalar::wide::<blocks::BlockIQ4XS>(w, x, out),
        format => unreachable!("{format} has no integer product"),
    }
}

fn float(isa: Isa, w: Weights<'_>, x: Floats<'_>, out: Target<'_>) {
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx2 {
        // SAFETY: as in `ints`.
        unsafe {
            match w.format {
                Format::F32 => return x86::float::<scalar::F32>(isa, w, x, out),
                Format::F16 => return x86::float::<scalar::F16>(isa, w, x, out),
                Format::BF16 => return x86::float::<scalar::BF16>(isa, w, x, out),
                _ => {}
            }
        }
    }
    let _ = isa;
    match w.format {
        Format::F32 => scalar::float::<scalar::F32>(w, x, out),
        Format::F16 => scalar::float::<scalar::F16>(w, x, out),
        Format::BF16 => scalar::float::<scalar::BF16>(w, x, out),
        format => unreachable!("{format} is dequantised first"),
    }
}

/// Neighbouring rows of a matrix.
#[derive(Debug, Clone, Copy)]
struct Weights<'a> {
    format: Format,
    row_bytes: usize,
    rows: usize,
    data: &'a [u8],
    stream: Stream,
}

impl<'a> Weights<'a> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn row(&self, r: usize) -> &'a [u8] {
        &self.data[r * self.row_bytes..(r + 1) * self.row_bytes]
    }
}

/// Quantised activation rows.
#[derive(Debug, Clone, Copy)]
struct Ints<'a> {
    q: &'a Quantized,
    rows: &'a [usize],
}

/// Float activation rows.
#[derive(Debug, Clone, Copy)]
struct Floats<'a> {
    x: &'a [f32],
    cols: usize,
    rows: &'a [usize],
}

impl<'a> Floats<'a> {
    fn row(&self, row: usize) -> &'a [f32] {
        &self.x[row * self.cols..(row + 1) * self.cols]
    }
}

/// Where products go: row `t` of the activations and row `r` of the weights to `out[t * stride + r]`.
struct Target<'a> {
    out: *mut f32,
    stride: usize,
    rows: usize,
    width: usize,
    life: PhantomData<&'a mut [f32]>,
}

impl Target<'_> {
    fn set(&mut self, t: usize, r: usize, value: f32) {
        assert!(t < self.rows && r < self.width);
        // SAFETY: the makers of a `Target` guarantee `rows` rows of `width` floats at distance `stride`.
        unsafe { *self.out.add(t * self.stride + r) = value }
    }
}
