//! AVX2: the products as 16-bit pairs, since `maddubs` would saturate on the low bytes.

use std::arch::x86_64::*;

use super::PANEL;
use super::panel::{Layout, Mins, Panel};
use super::tile::{LANES, TileBlock};
use super::wide::{Sums, Totals};

/// Rows of weights whose sums are in registers at once: 4 rows x 2 halves of a tile = 8 accumulators of 16.
const ROWS: usize = 4;

/// One block of `count` rows of weights times one block of every tile of activations, added to `sums`.
///
/// # Safety
/// The processor has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn multiply(
    panel: &Panel,
    tiles: &[TileBlock],
    layout: Layout,
    count: usize,
    sums: &mut [Sums],
    _: &mut [Totals; 2],
) {
    debug_assert!(count <= PANEL && tiles.len() == sums.len());
    for first in (0..count).step_by(ROWS) {
        let words = pairs(panel, first);
        for (tile, sums) in tiles.iter().zip(sums.iter_mut()) {
            let totals = products(&words, tile);
            for m in first..(first + ROWS).min(count) {
                fold(panel, tile, layout, m, totals[m - first], sums);
            }
        }
    }
}

/// Weights of four rows as 16-bit pairs: `[k / 4][row]` holds values (0, 2) and then (1, 3) of each quadruple, the order in which
/// shifts widen the activations' bytes.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn pairs(panel: &Panel, first: usize) -> [[[i32; 2]; ROWS]; 64] {
    let mut words = [[[0; 2]; ROWS]; 64];
    let (half, row) = (first / 16, first % 16);
    for (k, words) in words.iter_mut().enumerate() {
        for (m, to) in words.iter_mut().enumerate() {
            let (lo, hi) = (&panel.lo[half][k / 16][row + m], &panel.hi[half][k / 16][row + m]);
            let at = 4 * (k % 16);
            let v = |i: usize| i32::from(lo[at + i]) | i32::from(hi[at + i]) << 8;
            *to = [v(0) | v(2) << 16, v(1) | v(3) << 16];
        }
    }
    words
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn products(words: &[[[i32; 2]; ROWS]; 64], tile: &TileBlock) -> [[__m256i; 2]; ROWS] {
    let mut totals = [[_mm256_setzero_si256(); 2]; ROWS];
    for (words, quants) in words.iter().zip(&tile.quants) {
        for half in 0..2 {
            let x = load_half(quants, half);
            let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(x));
            let odd = _mm256_srai_epi16::<8>(x);
            for (total, [a, b]) in totals.iter_mut().zip(words) {
                let a = _mm256_madd_epi16(_mm256_set1_epi32(*a), even);
                let b = _mm256_madd_epi16(_mm256_set1_epi32(*b), odd);
                total[half] = _mm256_add_epi32(total[half], _mm256_add_epi32(a, b));
            }
        }
    }
    totals
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn fold(panel: &Panel, tile: &TileBlock, layout: Layout, m: usize, totals: [__m256i; 2], sums: &mut Sums) {
    for (half, total) in totals.into_iter().enumerate() {
        let d = load_f32(&tile.d, half);
        let offset = _mm256_set1_epi32(layout.offset.into());
        let total = _mm256_sub_epi32(total, _mm256_mullo_epi32(load_i32(&tile.sum, half), offset));
        let scale = _mm256_mul_ps(_mm256_set1_ps(panel.d[m]), d);
        let sum = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(total), load_f32(&sums.dot[m], half));
        store_f32(&mut sums.dot[m], half, sum);
        let of: &[[i16; 2 * LANES]] = match layout.mins {
            Mins::None => continue,
            Mins::Each16 => &tile.sums16,
            Mins::Each32 => &tile.sums32,
        };
        let mut total = _mm256_setzero_si256();
        for (x, mins) in of.iter().zip(&panel.mins[m]) {
            let product = _mm256_madd_epi16(_mm256_set1_epi32(*mins), load_sums(x, half));
            total = _mm256_add_epi32(total, product);
        }
        let scale = _mm256_mul_ps(_mm256_set1_ps(panel.dmin[m]), d);
        let sum = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(total), load_f32(&sums.min[m], half));
        store_f32(&mut sums.min[m], half, sum);
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_half(from: &[i8; 64], half: usize) -> __m256i {
    let (halves, _) = from.as_chunks::<32>();
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(halves[half].as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_sums(from: &[i16; 2 * LANES], half: usize) -> __m256i {
    let (halves, _) = from.as_chunks::<LANES>();
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(halves[half].as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_i32(from: &[i32; LANES], half: usize) -> __m256i {
    let (halves, _) = from.as_chunks::<8>();
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(halves[half].as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_f32(from: &[f32; LANES], half: usize) -> __m256 {
    let (halves, _) = from.as_chunks::<8>();
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_ps(halves[half].as_ptr()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn store_f32(to: &mut [f32; LANES], half: usize, value: __m256) {
    let (halves, _) = to.as_chunks_mut::<8>();
    // SAFETY: 32 writable bytes; the store needs no alignment.
    unsafe { _mm256_storeu_ps(halves[half].as_mut_ptr(), value) };
}
