//! Causal attention over a paged cache.
//!
//! * [`decode`]: few rows. Rows are cut into pieces that all multiprocessors share; the last block of a row merges them.
//! * [`prefill`]: many rows. Tiles of neighbouring rows go through all pages that they see.
//! * [`broad`]: many rows of the widest heads.
//! * [`float`]: caches of f32, any number of rows, a warp for each head.
//!
//! Rows that see chosen positions have [`decode`] or [`float`], whatever their number, or [`broad`]: positions are counted as if there were
//! no others, and [`chosen`] says where in the cache they are. These are whole blocks, or the [`ends`] of groups.

pub(crate) mod broad;
mod broad_chosen;
mod broad_weights;
mod chosen;
pub(crate) mod decode;
mod ends;
pub(crate) mod float;
mod items;
pub(crate) mod kind;
mod merge;
mod operands;
pub(crate) mod prefill;

use super::abi::attention::{AttendArgs, PAGE, Paged};
use super::abi::index::seen;
use super::simt::{divide, fma, ld_global_u32};
use kind::Kind;

/// Rows see all positions up to their own, or a window of these.
pub(crate) const ALL: u32 = 0;
/// The same; there are others, so that the sums are wanted.
pub(crate) const PART: u32 = 1;
/// Rows see chosen blocks, and what is behind the last whole one.
pub(crate) const BLOCKS: u32 = 2;
/// Rows see the last positions of groups, whose keys are their values; the sums are wanted.
pub(crate) const ENDS: u32 = 3;

/// Below this 2^x counts as zero, and so it comes out: an exponent of 0 is that of zero.
const LEAST: f32 = -127.0;
/// 1.5 * 2^23: adding it rounds to an integer.
const ROUND: f32 = 12_582_912.0;
/// 2^r, -1/2 <= r <= 1/2, less 1 and divided by r.
const EXP2: [f32; 6] =
    [core::f32::consts::LN_2, 0.240_226_5, 0.055_503_324, 0.009_618_437, 0.001_339_887_4, 0.000_153_533_62];

/// 2^x of `x <= 0`.
#[inline(always)]
pub(crate) fn exp2(x: f32) -> f32 {
    // Not the result is chosen but the argument, or there would be a branch. NaN stays what it is.
    let x = if x < LEAST { LEAST } else { x };
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    let mut q = EXP2[5];
    q = fma(q, r, EXP2[4]);
    q = fma(q, r, EXP2[3]);
    q = fma(q, r, EXP2[2]);
    q = fma(q, r, EXP2[1]);
    q = fma(q, r, EXP2[0]);
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    fma(q * r, scale, scale)
}

/// The logarithm of the sum of `e^score`, where `sum` is that of `e^(score - most)`.
#[inline(always)]
fn log_sum(args: &AttendArgs, most: f32, sum: f32) -> f32 {
    if sum == 0.0 { f32::NEG_INFINITY } else { fma(most, args.scale, ln(sum)) }
}

/// The natural logarithm of a positive number that is not tiny: that of a power of two, and of what is left around 1.
#[inline(always)]
fn ln(x: f32) -> f32 {
    /// The root of 1/2.
    const FIRST: u32 = 0x3f35_04f3;
    let shifted = x.to_bits().wrapping_sub(FIRST);
    let power = (shifted as i32 >> 23) as f32;
    let left = f32::from_bits((shifted & 0x007f_ffff) + FIRST);
    let s = (left - 1.0) / (left + 1.0);
    let q = s * s;
    let mut series = fma(q, 1.0 / 9.0, 1.0 / 7.0);
    series = fma(series, q, 1.0 / 5.0);
    series = fma(series, q, 1.0 / 3.0);
    let twice = s + s;
    fma(power, core::f32::consts::LN_2, fma(twice * q, series, twice))
}

/// Positions that a row at the end of `len` positions sees, but for its window.
#[inline(always)]
unsafe fn among<const SIGHT: u32>(args: &AttendArgs, len: u32) -> u32 {
    match SIGHT {
        BLOCKS => seen(len, args.shift, args.keep),
        ENDS => divide(len, args.every).0.min(args.keep),
        _ => len,
    }
}

/// What scores are multiplied with to be exponents of 2.
#[inline(always)]
fn factor(args: &AttendArgs) -> f32 {
    args.scale * core::f32::consts::LOG2_E
}

/// Bytes of a head's part of a page.
#[inline(always)]
fn head_bytes<K: Kind>(dim: u32) -> u32 {
    PAGE * dim * K::BYTES + if K::SCALED { dim / 32 * PAGE * 2 } else { 0 }
}

/// The page of a row's position, one of the cache's whatever the table says.
///
/// # Safety
/// The table has the lengths of [`Paged`].
#[inline(always)]
unsafe fn page(cache: &Paged, sequence: u32, position: u32) -> u64 {
    let line = u64::from(sequence.min(cache.tables - 1)) * u64::from(cache.stride);
    let entry = (position / PAGE).min(cache.stride - 1);
    u64::from(ld_global_u32(cache.table + 4 * (line + u64::from(entry))).min(cache.pages - 1))
}
