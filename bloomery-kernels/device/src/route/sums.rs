//! Sums of products in the one order that a row's have.

use super::super::abi::formats;
use super::super::abi::route::{CHAIN, SLAB};
use super::super::simt::{
    fma, half, lane, ld_global_f32x4, ld_global_u32x2, ld_shared_f32, ld_shared_u32x4, shfl_xor_f32, sqrt,
};

/// Values of a chain.
pub(super) const LEN: usize = CHAIN as usize;

/// Where chain `chain` of a row starts; its second half is 32 columns further.
#[inline(always)]
pub(super) fn column(chain: u32) -> u32 {
    chain / 8 * SLAB + chain % 8 * 4
}

/// The two halves.
#[inline(always)]
pub(super) fn join(a: [f32; 4], b: [f32; 4]) -> [f32; LEN] {
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
}

/// Four floats of a row from column `at` on; zeros behind its end.
///
/// # Safety
/// The row is readable, aligned to 16 bytes, of a multiple of 4 columns.
#[inline(always)]
pub(super) unsafe fn quad(row: u64, at: u32, cols: u32) -> [f32; 4] {
    if at < cols { ld_global_f32x4(row + 4 * u64::from(at)) } else { [0.0; 4] }
}

/// The values of a chain of a row of floats.
///
/// # Safety
/// As [`quad`].
#[inline(always)]
pub(super) unsafe fn chain_of(row: u64, chain: u32, cols: u32) -> [f32; LEN] {
    let at = column(chain);
    join(quad(row, at, cols), quad(row, at + SLAB / 2, cols))
}

/// The words that hold [`quad`] of row `row` of a matrix in a format: nothing waits for them yet.
///
/// # Safety
/// The matrix is readable and aligned to four of its values; rows have `cols` columns, a multiple of 4.
#[inline(always)]
pub(super) unsafe fn words(matrix: u64, format: u32, row: u32, at: u32, cols: u32) -> [u32; 4] {
    let index = u64::from(row) * u64::from(cols) + u64::from(at);
    if at >= cols {
        [0; 4]
    } else if format == formats::F32 {
        ld_global_f32x4(matrix + 4 * index).map(f32::to_bits)
    } else {
        let [a, b] = ld_global_u32x2(matrix + 2 * index);
        [a, b, 0, 0]
    }
}

/// The values in [`words`].
#[inline(always)]
pub(super) fn values(format: u32, words: [u32; 4]) -> [f32; 4] {
    let [a, b, ..] = words;
    if format == formats::F32 {
        words.map(f32::from_bits)
    } else if format == formats::F16 {
        [half(a as u16), half((a >> 16) as u16), half(b as u16), half((b >> 16) as u16)]
    } else {
        [a << 16, a & 0xffff_0000, b << 16, b & 0xffff_0000].map(f32::from_bits)
    }
}

/// The sum of a chain.
#[inline(always)]
pub(super) fn chain(a: [f32; LEN], b: [f32; LEN]) -> f32 {
    let (mut sum, mut i) = (0.0, 0);
    while i < LEN {
        sum = fma(a[i], b[i], sum);
        i += 1;
    }
    sum
}

/// Sums over eight neighbouring lanes: of the lanes' values `i` in lane `i` of the eight.
///
/// # Safety
/// Every lane of the warp gets here.
#[inline(always)]
pub(super) unsafe fn fold(values: [f32; 8]) -> f32 {
    let lane = lane();
    let step = |even: f32, odd: f32, bit: u32| {
        let (keep, send) = if lane & bit == 0 { (even, odd) } else { (odd, even) };
        keep + shfl_xor_f32(send, bit)
    };
    let [a, b, c, d, e, f, g, h] = values;
    let (ab, cd) = (step(a, b, 1), step(c, d, 1));
    let (ef, gh) = (step(e, f, 1), step(g, h, 1));
    step(step(ab, cd, 2), step(ef, gh, 2), 4)
}

/// `slabs` floats of shared memory in ascending order.
///
/// # Safety
/// They are there, aligned to 16 bytes.
#[inline(always)]
pub(super) unsafe fn ascending(at: u32, slabs: u32) -> f32 {
    let (mut sum, mut i) = (0.0, 0);
    while i + 4 <= slabs {
        let [a, b, c, d] = ld_shared_u32x4(at + 4 * i).map(f32::from_bits);
        sum = sum + a + b + c + d;
        i += 4;
    }
    while i < slabs {
        sum += ld_shared_f32(at + 4 * i);
        i += 1;
    }
    sum
}

/// `1 / sqrt(square / cols + eps)`.
#[inline(always)]
pub(super) fn inverse(square: f32, cols: u32, eps: f32) -> f32 {
    1.0 / sqrt(square / cols as f32 + eps)
}
