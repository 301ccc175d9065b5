//! The K-quants on vectors whose every 128-bit lane belongs to another weight row.
//!
//! With one row per lane (four in AVX-512, two in AVX2) the 16-byte pieces of a block are loaded row by row, the
//! activations are broadcast to all lanes, and three things become cheap at once: the block's packed scales are
//! decoded for all rows together, `vpshufb` spreads them within the row's lane, and the horizontal sum of a block
//! leaves only four integers per row instead of sixteen. Floats stay in the lanes too: float 0 of a lane folds the
//! products, float 1 the minimums.
//!
//! The bodies are `#[inline(always)]` down to the intrinsics and hold no closures around them: a closure does not
//! inherit the features of the function that it ends up in, and costs a call through memory for every vector
//! (measured: 7 times slower on Q3_K).

use super::kquants::Wide;
use super::{AHEAD, Ints, Target, Weights};

/// Vectors of 16-byte lanes, one weight row in each.
///
/// # Safety
/// Every method needs the instruction set of its implementation, and pointers that are valid for what they read.
pub(super) trait Lanes: Copy {
    /// Lanes, at most 4.
    const ROWS: usize;
    /// As many floats.
    type Floats: Copy;
    /// Multipliers of two runs of values.
    type Scale: Copy;

    unsafe fn zero() -> Self;
    /// 16 bytes of every row.
    unsafe fn gather(rows: &[*const u8; 4], at: usize) -> Self;
    /// The same 16 bytes in every lane.
    unsafe fn spread(at: *const u8) -> Self;
    unsafe fn splat(byte: u8) -> Self;
    unsafe fn and(self, mask: Self) -> Self;
    /// `self | (bits & mask)`
    unsafe fn or_and(self, bits: Self, mask: Self) -> Self;
    unsafe fn sub8(self, other: Self) -> Self;
    /// Shifts 16-bit words left by a positive, right by a negative number of bits that is a constant at the call.
    unsafe fn shift(self, left: i32) -> Self;
    /// `vpshufb`: bytes by index, 0 for indices with the high bit.
    unsafe fn shuffle(self, table: &[u8; 16]) -> Self;
    /// The sign of 16-bit words whose value is in the high byte: an arithmetic shift by 8.
    unsafe fn high_bytes(self) -> Self;
    /// `acc + a.b` of 16-bit words, in pairs.
    unsafe fn madd(acc: Self, a: Self, b: Self) -> Self;
    /// `self - (other << shift)` of 32-bit words; `shift` is 2 or 5.
    unsafe fn sub_shifted(self, other: Self, shift: i32) -> Self;
    /// From four 16-bit copies of one multiplier, then four of another.
    unsafe fn scale(pairs: Self) -> Self::Scale;
    /// Adds `(w[0].x[0] + w[1].x[1]) * first + (w[2].x[2] + w[3].x[3]) * second`; `w` unsigned and below 32.
    unsafe fn mac32(acc: Self, w: [Self; 4], x: [Self; 4], scale: Self::Scale) -> Self;
    /// Adds `w[0].x[0] * first + w[1].x[1] * second`; `w` unsigned and below 64.
    unsafe fn mac16(acc: Self, w: [Self; 2], x: [Self; 2], scale: Self::Scale) -> Self;
    /// The byte of `table` for every byte below 16.
    unsafe fn lookup(table: &[u8; 16], index: Self) -> Self;
    /// Adds `w.x * scale`, the scale as 16-bit words; `w` and `x` signed and above -128.
    unsafe fn mac_signed(acc: Self, w: Self, x: Self, scale: Self) -> Self;
    /// The sum of the 32-bit words of each lane in every word.
    unsafe fn sum(self) -> Self;
    /// In each lane the sums of both arguments, alternating.
    unsafe fn sums(self, other: Self) -> Self;

    unsafe fn no_floats() -> Self::Floats;
    /// The two f16 in the first four bytes of each lane, alternating.
    unsafe fn halves(self) -> Self::Floats;
    /// The f16 at an offset of each row, in every float of its lane.
    unsafe fn half_at(rows: &[*const u8; 4], at: usize) -> Self::Floats;
    /// `fma(d * x, ints, acc)`
    unsafe fn fold(acc: Self::Floats, d: Self::Floats, x: f32, ints: Self) -> Self::Floats;
    /// Floats 0 and 1 of each lane.
    unsafe fn ends(floats: Self::Floats) -> [[f32; 2]; 4];
    /// Asks for the cache line at `at`, which need not be readable.
    unsafe fn prefetch(at: *const u8);
}

/// One activation row.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) q: *const u8,
    pub(super) d: *const f32,
    pub(super) sums32: *const u8,
    pub(super) sums16: *const u8,
}

impl Row {
    /// Row `t` of the picked ones.
    #[inline(always)]
    pub(super) fn new(x: Ints<'_>, t: usize) -> Self {
        let row = x.rows[t];
        Self {
            q: x.q.values(row).as_ptr().cast(),
            d: x.q.scales(row).as_ptr(),
            sums32: x.q.sums32(row).as_ptr().cast(),
            // Empty in the form that has none.
            sums16: x.q.sums16(row).as_ptr().cast(),
        }
    }
}

/// Products of all rows of `w` with `T` activation rows.
///
/// # Safety
/// The contract of [`super`], for the instruction set of `V`; `x.rows` has `T` indices.
#[inline(always)]
pub(super) unsafe fn wide<V: Lanes, F: Wide, const T: usize>(
    w: Weights<'_>,
    x: Ints<'_>,
    mut out: Target<'_>,
) {
    let blocks = w.row_bytes / F::BYTES;
    let x: [Row; T] = std::array::from_fn(|t| Row::new(x, t));
    let mut r = 0;
    while r < w.rows {
        let count = V::ROWS.min(w.rows - r);
        // Lanes without a row repeat the last one.
        let rows: [*const u8; 4] = std::array::from_fn(|i| w.row(r + i.min(count - 1)).as_ptr());
        // SAFETY: contracts 1 to 3; block `b` of each row of `w` and of `x` exists.
        unsafe {
            let mut acc = [V::no_floats(); T];
            for b in 0..blocks {
                let ahead = V::ROWS * (w.row_bytes + b * F::BYTES) + AHEAD;
                let at = w.stream.at(rows[0].wrapping_add(ahead));
                for line in 0..(V::ROWS * F::BYTES).div_ceil(64) {
                    V::prefetch(at.wrapping_add(64 * line));
                }
                F::block::<V, T>(&rows.map(|row| row.add(b * F::BYTES)), &x, b, &mut acc);
            }
            for (t, acc) in acc.into_iter().take(out.rows).enumerate() {
                for (i, [sum, mins]) in V::ends(acc).into_iter().take(count).enumerate() {
                    out.set(t, r + i, if F::MINS { sum - mins } else { sum });
                }
            }
        }
        r += count;
    }
}
