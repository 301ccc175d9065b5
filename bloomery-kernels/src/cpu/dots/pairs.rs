//! Formats whose product is sixteen float lanes: blocks of 32 values, two at a time, and plain floats.
//!
//! Two neighbouring blocks fill the sixteen lanes, so the vector code steps through a row two blocks at once and the
//! definition's order is the natural one. Several weight rows run side by side: they share the activations' loads and
//! hide the latency of the lane's additions.

use super::{AHEAD, Floats, Ints, Target, Weights, lanes::Row, scalar};

/// 64 bytes: two blocks of int8 values, or their sixteen sums over four values.
///
/// # Safety
/// Every method needs the instruction set of its implementation, and pointers that are valid for what they read.
/// Methods with `at` read from both pointers.
pub(super) trait Pair: Copy {
    /// Sixteen floats.
    type Floats: Copy;

    /// 32 bytes from each.
    unsafe fn load(at: [*const u8; 2]) -> Self;
    /// The low, then the high nibbles of 16 bytes from each.
    unsafe fn nibbles(at: [*const u8; 2]) -> Self;
    /// The byte of `table` for every byte below 16.
    unsafe fn lookup(self, table: &[u8; 16]) -> Self;
    /// Adds 16 to every byte whose bit is set.
    unsafe fn fifth(self, bits: [u32; 2]) -> Self;
    unsafe fn zero() -> Self;
    /// Minus `offset` times the sum of every four values.
    unsafe fn offset(self, offset: u8) -> Self;
    /// `start` plus the products of every four values; `self` unsigned and below 32.
    unsafe fn dot(self, x: Self, start: Self) -> Self;
    /// The products of every four values; `x` above -128, `shift` is `x.offset(128)`.
    unsafe fn dot_signed(self, x: Self, shift: Self) -> Self;

    unsafe fn no_floats() -> Self::Floats;
    /// Eight copies of each.
    unsafe fn eights(values: [f32; 2]) -> Self::Floats;
    /// Eight copies of the f16 at each.
    unsafe fn halves(at: [*const u8; 2]) -> Self::Floats;
    /// `fma(d * x, ints, acc)`
    unsafe fn fold(acc: Self::Floats, d: Self::Floats, x: Self::Floats, ints: Self) -> Self::Floats;
    /// [`Pair::fold`] of the first eight lanes; the others stay.
    unsafe fn fold_first(acc: Self::Floats, d: Self::Floats, x: Self::Floats, ints: Self) -> Self::Floats;
    /// The sum of the lanes in the order of `scalar::tree`.
    unsafe fn tree(acc: Self::Floats) -> f32;

    /// Sixteen f32.
    unsafe fn f32s(at: *const u8) -> Self::Floats;
    /// Sixteen f16.
    unsafe fn f16s(at: *const u8) -> Self::Floats;
    /// Sixteen bf16.
    unsafe fn bf16s(at: *const u8) -> Self::Floats;
    /// `fma(w, x, acc)`
    unsafe fn fma(w: Self::Floats, x: Self::Floats, acc: Self::Floats) -> Self::Floats;
    unsafe fn lanes(floats: Self::Floats) -> [f32; 16];
    /// Asks for the cache line at `at`, which need not be readable.
    unsafe fn prefetch(at: *const u8);
    /// The value of an f16.
    unsafe fn half(at: *const u8) -> f32;
}

/// A format with blocks of 32 values.
pub(super) trait Narrow {
    /// Bytes in a block.
    const BYTES: usize;
    /// What the unsigned integers of `quants` stand too high; 128 marks signed bytes.
    const OFFSET: u8;
    /// Byte of the block's minimum.
    const MIN: Option<usize> = None;

    /// The integers of two blocks.
    ///
    /// # Safety
    /// `V`'s instruction set; two blocks.
    unsafe fn quants<V: Pair>(at: [*const u8; 2]) -> V;

    /// Eight copies of the scale of each of two blocks; an f16 at their start unless a format says otherwise.
    ///
    /// # Safety
    /// As for `quants`.
    #[inline(always)]
    unsafe fn scales<V: Pair>(at: [*const u8; 2]) -> V::Floats {
        // SAFETY: the caller's; a block has more than two bytes.
        unsafe { V::halves(at) }
    }
}

/// A format of single floats.
pub(super) trait Single: scalar::Float {
    /// Sixteen values.
    ///
    /// # Safety
    /// `V`'s instruction set; sixteen readable values.
    unsafe fn load<V: Pair>(at: *const u8) -> V::Floats;
}

/// Products of all rows of `w`, `R` at a time, with `T` activation rows.
///
/// # Safety
/// The contract of [`super`], for the instruction set of `V`; `x.rows` has `T` indices.
#[inline(always)]
pub(super) unsafe fn narrow<V: Pair, F: Narrow, const R: usize, const T: usize>(
    w: Weights<'_>,
    x: Ints<'_>,
    mut out: Target<'_>,
) {
    let blocks = w.row_bytes / F::BYTES;
    let x: [Row; T] = std::array::from_fn(|t| Row::new(x, t));
    let mut r = 0;
    while r < w.rows {
        let count = R.min(w.rows - r);
        // Rows past the end repeat the last one.
        let rows: [*const u8; R] = std::array::from_fn(|i| w.row(r + i.min(count - 1)).as_ptr());
        // SAFETY: contracts 1 to 3; steps end with the last block of the rows.
        unsafe {
            let mut acc = [[V::no_floats(); T]; R];
            let mut mins = [[0f32; T]; R];
            let mut b = 0;
            while b + 2 <= blocks {
                let at = w.stream.at(rows[0].wrapping_add(R * (w.row_bytes + b * F::BYTES) + AHEAD));
                for line in 0..(R * 2 * F::BYTES).div_ceil(64) {
                    V::prefetch(at.wrapping_add(64 * line));
                }
                narrow_step::<V, F, R, T, 2>(&rows, &x, b, &mut acc, &mut mins);
                b += 2;
            }
            if b < blocks {
                narrow_step::<V, F, R, T, 1>(&rows, &x, b, &mut acc, &mut mins);
            }
            for t in 0..T.min(out.rows) {
                for i in 0..count {
                    out.set(t, r + i, V::tree(acc[i][t]) - mins[i][t]);
                }
            }
        }
        r += count;
    }
}

/// Folds `BLOCKS` blocks, 1 or 2, from block `b` on.
#[inline(always)]
unsafe fn narrow_step<V: Pair, F: Narrow, const R: usize, const T: usize, const BLOCKS: usize>(
    rows: &[*const u8; R],
    x: &[Row; T],
    b: usize,
    acc: &mut [[V::Floats; T]; R],
    mins: &mut [[f32; T]; R],
) {
    // SAFETY: the caller's; with one block both pointers lead to it.
    unsafe {
        let (mut q, mut d) = ([V::zero(); R], [V::no_floats(); R]);
        let mut m = [[0f32; 2]; R];
        for i in 0..R {
            let first = rows[i].add(b * F::BYTES);
            let at = [first, first.add((BLOCKS - 1) * F::BYTES)];
            q[i] = F::quants::<V>(at);
            d[i] = F::scales::<V>(at);
            if let Some(min) = F::MIN {
                m[i] = [-V::half(at[0].add(min)), -V::half(at[1].add(min))];
            }
        }
        for t in 0..T {
            let (values, scales) = (x[t].q.add(32 * b), x[t].d.add(b));
            let sums = x[t].sums32.cast::<i16>().add(b);
            let values = V::load([values, values.add(32 * (BLOCKS - 1))]);
            let scales = [*scales, *scales.add(BLOCKS - 1)];
            let (dx, start) = (V::eights(scales), values.offset(F::OFFSET));
            for i in 0..R {
                let ints =
                    if F::OFFSET == 128 { q[i].dot_signed(values, start) } else { q[i].dot(values, start) };
                acc[i][t] = if BLOCKS == 2 {
                    V::fold(acc[i][t], d[i], dx, ints)
                } else {
                    V::fold_first(acc[i][t], d[i], dx, ints)
                };
                if F::MIN.is_some() {
                    for k in 0..BLOCKS {
                        let sum = f32::from(*sums.add(k));
                        mins[i][t] = (m[i][k] * scales[k]).mul_add(sum, mins[i][t]);
                    }
                }
            }
        }
    }
}

/// Products of all rows of `w`, `R` at a time, with `T` activation rows.
///
/// # Safety
/// The contract of [`super`], for the instruction set of `V`; `x.rows` has `T` indices.
#[inline(always)]
pub(super) unsafe fn float<V: Pair, F: Single, const R: usize, const T: usize>(
    w: Weights<'_>,
    x: Floats<'_>,
    mut out: Target<'_>,
) {
    let xs: [&[f32]; T] = std::array::from_fn(|t| x.row(x.rows[t]));
    let whole = x.cols / 16 * 16;
    let mut r = 0;
    while r < w.rows {
        let count = R.min(w.rows - r);
        let rows: [&[u8]; R] = std::array::from_fn(|i| w.row(r + i.min(count - 1)));
        // SAFETY: contracts 1 to 3; every load of sixteen values ends at `whole` or before.
        unsafe {
            let mut acc = [[V::no_floats(); T]; R];
            let mut c = 0;
            while c < whole {
                let at = w.stream.at(rows[0].as_ptr().wrapping_add(R * (w.row_bytes + c * F::BYTES) + AHEAD));
                for line in 0..(R * 16 * F::BYTES).div_ceil(64) {
                    V::prefetch(at.wrapping_add(64 * line));
                }
                let mut weights = [V::no_floats(); R];
                for i in 0..R {
                    weights[i] = F::load::<V>(rows[i].as_ptr().add(c * F::BYTES));
                }
                for t in 0..T {
                    let x = V::f32s(xs[t].as_ptr().add(c).cast());
                    for i in 0..R {
                        acc[i][t] = V::fma(weights[i], x, acc[i][t]);
                    }
                }
                c += 16;
            }
            for t in 0..T.min(out.rows) {
                for i in 0..count {
                    let sum = if whole == x.cols {
                        V::tree(acc[i][t])
                    } else {
                        let (w, x) = (&rows[i][whole * F::BYTES..], &xs[t][whole..]);
                        scalar::tree(scalar::add_lanes::<F>(V::lanes(acc[i][t]), w, x))
                    };
                    out.set(t, r + i, sum);
                }
            }
        }
        r += count;
    }
}
