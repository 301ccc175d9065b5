//! AVX-512: the fold of integer totals into float sums, and byte products through VNNI where there are no tiles.

use std::arch::x86_64::*;
use std::ops::Range;

use super::PANEL;
use super::panel::{Layout, Mins, OFFSET, Panel};
use super::tile::{LANES, TileBlock};
use super::wide::{Sums, Totals};

/// One block of `count` rows of weights times one block of every tile of activations, added to `sums`.
///
/// # Safety
/// The processor has the AVX-512 subsets of [`Isa::Avx512`](super::super::Isa).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn multiply(
    panel: &Panel,
    tiles: &[TileBlock],
    layout: Layout,
    count: usize,
    sums: &mut [Sums],
    _: &mut [Totals; 2],
) {
    debug_assert!(count <= PANEL && tiles.len() == sums.len());
    match layout.mins {
        Mins::None => pass::<0>(panel, tiles, layout, count, sums),
        Mins::Each32 => pass::<4>(panel, tiles, layout, count, sums),
        Mins::Each16 => pass::<8>(panel, tiles, layout, count, sums),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
fn pass<const PAIRS: usize>(
    panel: &Panel,
    tiles: &[TileBlock],
    layout: Layout,
    count: usize,
    sums: &mut [Sums],
) {
    let (pairs, last) = tiles.as_chunks::<2>();
    let (pair_sums, last_sums) = sums.as_chunks_mut::<2>();
    for ([a, b], [sum_a, sum_b]) in pairs.iter().zip(pair_sums) {
        for first in (0..count).step_by(ROWS) {
            let totals = products(panel, [a, b], first);
            let rows = first..first + ROWS;
            fold::<PAIRS, 2>(panel, [a, b], layout, rows, |m, n| totals[m - first][n], [sum_a, sum_b]);
        }
    }
    if let (Some(tile), Some(sums)) = (last.first(), last_sums.first_mut()) {
        for first in (0..count).step_by(ROWS) {
            let totals = products(panel, [tile], first);
            let rows = first..first + ROWS;
            fold::<PAIRS, 1>(panel, [tile], layout, rows, |m, n| totals[m - first][n], [sums]);
        }
    }
}

/// Rows of weights whose sums are in registers at once: 4 rows x 2 tiles x 2 bytes = 16 accumulators of 32.
const ROWS: usize = 4;

/// (low, high) totals of rows `first..first + 4` for each tile.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
fn products<const N: usize>(
    panel: &Panel,
    tiles: [&TileBlock; N],
    first: usize,
) -> [[(__m512i, __m512i); N]; ROWS] {
    let mut totals = [[(_mm512_setzero_si512(), _mm512_setzero_si512()); N]; ROWS];
    // A group of four rows never straddles two tiles of 16.
    let (half, row) = (first / 16, first % 16);
    for step in 0..4 {
        let (lo, hi) = (&panel.lo[half][step], &panel.hi[half][step]);
        for k in 0..16 {
            let mut x = [_mm512_setzero_si512(); N];
            for (x, tile) in x.iter_mut().zip(tiles) {
                *x = load_i8(&tile.quants[16 * step + k]);
            }
            for (m, totals) in totals.iter_mut().enumerate() {
                let (l, h) = (splat(&lo[row + m], k), splat(&hi[row + m], k));
                for n in 0..N {
                    totals[n].0 = _mm512_dpbusd_epi32(totals[n].0, l, x[n]);
                    totals[n].1 = _mm512_dpbusd_epi32(totals[n].1, h, x[n]);
                }
            }
        }
    }
    totals
}

/// Adds a block's totals of rows `rows` to the float sums: the one place where integers become floats. A format with
/// minimums has them in 4 or 8 `PAIRS`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
pub(super) fn fold<const PAIRS: usize, const N: usize>(
    panel: &Panel,
    tiles: [&TileBlock; N],
    layout: Layout,
    rows: Range<usize>,
    total: impl Fn(usize, usize) -> (__m512i, __m512i),
    sums: [&mut Sums; N],
) {
    // (No closures around vectors here: `array::from_fn` and `map` are compiled without the target features, and what
    // they call is not inlined.)
    let mut d = [_mm512_setzero_ps(); N];
    let mut correction = [_mm512_setzero_si512(); N];
    for n in 0..N {
        d[n] = load_f32(&tiles[n].d);
        if PAIRS == 0 {
            // 4096 times the sum; formats with minimums have no negative weights.
            debug_assert!(layout.offset == OFFSET);
            correction[n] = _mm512_slli_epi32::<12>(load_i32(&tiles[n].sum));
        }
    }
    for m in rows.clone() {
        let weight = _mm512_set1_ps(panel.d[m]);
        for n in 0..N {
            let (lo, hi) = total(m, n);
            let mut total = _mm512_add_epi32(_mm512_slli_epi32::<8>(hi), lo);
            if PAIRS == 0 {
                total = _mm512_sub_epi32(total, correction[n]);
            }
            let scale = _mm512_mul_ps(weight, d[n]);
            let sum = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(total), load_f32(&sums[n].dot[m]));
            store_f32(&mut sums[n].dot[m], sum);
        }
    }
    if PAIRS == 0 {
        return;
    }
    let mut of = [[_mm512_setzero_si512(); N]; PAIRS];
    for (p, of) in of.iter_mut().enumerate() {
        for n in 0..N {
            of[n] = load_i16(if PAIRS == 4 { &tiles[n].sums32[p] } else { &tiles[n].sums16[p] });
        }
    }
    for m in rows {
        let weight = _mm512_set1_ps(panel.dmin[m]);
        let mut total = [_mm512_setzero_si512(); N];
        for (of, mins) in of.iter().zip(&panel.mins[m]) {
            let mins = _mm512_set1_epi32(*mins);
            for n in 0..N {
                total[n] = _mm512_dpwssd_epi32(total[n], of[n], mins);
            }
        }
        for n in 0..N {
            let scale = _mm512_mul_ps(weight, d[n]);
            let sum = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(total[n]), load_f32(&sums[n].min[m]));
            store_f32(&mut sums[n].min[m], sum);
        }
    }
}

/// `out[lane][row] = dot[row][lane] - min[row][lane]`.
///
/// # Safety
/// The processor has AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn finish(sums: &Sums, out: &mut [[f32; PANEL]; LANES]) {
    for half in 0..2 {
        let mut rows = [_mm512_setzero_ps(); 16];
        for (m, row) in (16 * half..).zip(&mut rows) {
            *row = _mm512_sub_ps(load_f32(&sums.dot[m]), load_f32(&sums.min[m]));
        }
        for (lane, row) in transpose(rows).into_iter().enumerate() {
            // SAFETY: 16 floats at 16 * half <= 16 of an array of 32.
            unsafe { _mm512_storeu_ps(out[lane].as_mut_ptr().add(16 * half), row) };
        }
    }
}

/// Transposes 16 x 16 words.
#[target_feature(enable = "avx512f")]
#[inline]
fn transpose(r: [__m512; 16]) -> [__m512; 16] {
    // Within each 128-bit lane: 4 x 4 words of four neighbouring rows.
    let mut q = r;
    for i in 0..4 {
        let [a, b, c, d] = [r[4 * i], r[4 * i + 1], r[4 * i + 2], r[4 * i + 3]];
        let (ab0, ab1) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        let (cd0, cd1) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
        q[4 * i] = _mm512_shuffle_ps::<0x44>(ab0, cd0);
        q[4 * i + 1] = _mm512_shuffle_ps::<0xee>(ab0, cd0);
        q[4 * i + 2] = _mm512_shuffle_ps::<0x44>(ab1, cd1);
        q[4 * i + 3] = _mm512_shuffle_ps::<0xee>(ab1, cd1);
    }
    // q[4 i + j], lane l: words 4 l + j of rows 4 i .. 4 i + 4. Now transpose the 4 x 4 lanes (i, l) for each j.
    let mut out = r;
    for j in 0..4 {
        let [a, b, c, d] = [q[j], q[4 + j], q[8 + j], q[12 + j]];
        let (ab0, ab1) = (_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
        let (cd0, cd1) = (_mm512_shuffle_f32x4::<0x44>(c, d), _mm512_shuffle_f32x4::<0xee>(c, d));
        out[j] = _mm512_shuffle_f32x4::<0x88>(ab0, cd0);
        out[4 + j] = _mm512_shuffle_f32x4::<0xdd>(ab0, cd0);
        out[8 + j] = _mm512_shuffle_f32x4::<0x88>(ab1, cd1);
        out[12 + j] = _mm512_shuffle_f32x4::<0xdd>(ab1, cd1);
    }
    out
}

/// Bytes `4 k .. 4 k + 4` in every word.
#[target_feature(enable = "avx512f")]
#[inline]
fn splat(row: &[u8; 64], k: usize) -> __m512i {
    let (words, _) = row.as_chunks::<4>();
    _mm512_set1_epi32(i32::from_le_bytes(words[k]))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load_i8(from: &[i8; 64]) -> __m512i {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load_i16(from: &[i16; 32]) -> __m512i {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn load_i32(from: &[i32; 16]) -> __m512i {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load_f32(from: &[f32; 16]) -> __m512 {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn store_f32(to: &mut [f32; 16], value: __m512) {
    // SAFETY: 64 writable bytes; the store needs no alignment.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), value) };
}
