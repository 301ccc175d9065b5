//! Formats of 32-value blocks in AVX-512.
//!
//! Their sums run in 16 float lanes that each take the exact products of four neighbouring values, so a product costs a
//! conversion and a float multiply-add for every four values, whatever the instruction set. Here a register holds one of
//! these lanes for 16 rows of activations: three rows of weights make 3 x 8 accumulators, the even and the odd blocks
//! one after the other, and each load of activations serves three rows.

use std::arch::x86_64::*;
use std::ops::Range;

use bloomery_gguf::Format;
use bloomery_gguf::blocks::{
    Block, BlockIQ4NL, BlockMXFP4, BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0,
};

use super::super::{Isa, Matrix};
use super::{LANES, NarrowBlock, PANEL, TILE_LANES, Tiles};

type Multiply = unsafe fn(&Matrix<'_>, Range<usize>, &[NarrowBlock], &mut [[f32; PANEL]; TILE_LANES]);

/// The kernel of one format.
#[derive(Clone, Copy)]
pub(crate) struct Narrow {
    multiply: Multiply,
}

impl Narrow {
    /// The kernel, if `isa` has one for `format`. (In AVX2, with 16 registers, the single-row kernels are as fast.)
    pub(super) fn new(isa: Isa, format: Format) -> Option<Self> {
        if isa < Isa::Avx512 {
            return None;
        }
        let multiply: Multiply = match format {
            Format::Q4_0 => multiply::<BlockQ4_0, false>,
            Format::Q4_1 => multiply::<BlockQ4_1, true>,
            Format::Q5_0 => multiply::<BlockQ5_0, false>,
            Format::Q5_1 => multiply::<BlockQ5_1, true>,
            Format::Q8_0 => multiply::<BlockQ8_0, false>,
            Format::IQ4_NL => multiply::<BlockIQ4NL, false>,
            Format::MXFP4 => multiply::<BlockMXFP4, false>,
            _ => return None,
        };
        Some(Self { multiply })
    }

    /// As `Gemm::run`.
    pub(super) fn run(
        &self,
        weight: &Matrix<'_>,
        rows: Range<usize>,
        tiles: Tiles<'_>,
        lanes: Range<usize>,
        sink: &mut dyn FnMut(usize, &[f32]),
    ) {
        debug_assert!(lanes.start.is_multiple_of(LANES) && rows.len() <= PANEL);
        let mut out = [[0.0; PANEL]; TILE_LANES];
        for first in lanes.clone().step_by(TILE_LANES) {
            let wanted = first..lanes.end.min(first + TILE_LANES);
            let blocks = tiles.narrow_of(wanted.start / LANES..wanted.end.div_ceil(LANES));
            // SAFETY: `Gemm::new` passes an instruction set that this machine has, here AVX-512 at least.
            unsafe { (self.multiply)(weight, rows.clone(), blocks, &mut out) };
            for (lane, values) in wanted.zip(&out) {
                sink(lane, &values[..rows.len()]);
            }
        }
    }
}

/// Rows of weights whose sums are in registers at once.
const ROWS: usize = 3;

/// One block of three rows of weights.
#[derive(Clone, Copy)]
struct Weights {
    /// Four values each.
    quants: [[i32; 8]; ROWS],
    /// What the activations' 128 adds to their products, negated.
    start: [[i32; 8]; ROWS],
    factor: [f32; ROWS],
    offset: [f32; ROWS],
}

impl Weights {
    const ZERO: Self =
        Self { quants: [[0; 8]; ROWS], start: [[0; 8]; ROWS], factor: [0.0; ROWS], offset: [0.0; ROWS] };
}

/// The products of rows `rows` (at most 32) of `weight` and `tiles` (at most [`TILE_LANES`] lanes), into `out[lane]`.
///
/// # Safety
/// The processor has the AVX-512 subsets of [`Isa::Avx512`](super::super::Isa).
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn multiply<B: Block, const OFFSETS: bool>(
    weight: &Matrix<'_>,
    rows: Range<usize>,
    tiles: &[NarrowBlock],
    out: &mut [[f32; PANEL]; TILE_LANES],
) {
    let blocks = weight.cols() / B::LEN;
    if blocks == 0 {
        return;
    }
    let mut weights = vec![Weights::ZERO; blocks];
    for first in rows.clone().step_by(ROWS) {
        let count = ROWS.min(rows.end - first);
        weights.fill(Weights::ZERO);
        for m in 0..count {
            for (from, to) in weight.row(first + m).chunks_exact(B::BYTES).zip(&mut weights) {
                let Some(block) = B::read(from) else { return };
                let quants = block.quants(0);
                // SAFETY: 32 bytes in each array; the accesses need no alignment.
                unsafe {
                    let q = _mm256_loadu_si256(quants.as_ptr().cast());
                    let zero = _mm256_setzero_si256();
                    // 128 as an unsigned byte.
                    let sums = _mm256_dpbusd_epi32(zero, _mm256_set1_epi8(-128), q);
                    _mm256_storeu_si256(to.quants[m].as_mut_ptr().cast(), q);
                    _mm256_storeu_si256(to.start[m].as_mut_ptr().cast(), _mm256_sub_epi32(zero, sums));
                }
                to.factor[m] = block.factor(0);
                to.offset[m] = block.offset(0);
            }
        }
        for (tile, out) in tiles.chunks_exact(blocks).zip(out.as_chunks_mut::<LANES>().0) {
            let sums = products::<OFFSETS>(&weights, tile);
            for (m, sums) in (first - rows.start..).zip(&sums[..count]) {
                out.iter_mut().zip(sums).for_each(|(out, sum)| out[m] = *sum);
            }
        }
    }
}

/// The products of three rows of weights and a tile.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
fn products<const OFFSETS: bool>(weights: &[Weights], tile: &[NarrowBlock]) -> [[f32; LANES]; ROWS] {
    let (even, odd) = (lanes(weights, tile, 0), lanes(weights, tile, 1));
    let mut out = [[0.0; LANES]; ROWS];
    for m in 0..ROWS {
        // Lanes i and i + 8, i + 4, i + 2, i + 1.
        let mut sums = [_mm512_setzero_ps(); 8];
        for (l, sum) in sums.iter_mut().enumerate() {
            *sum = _mm512_add_ps(even[l][m], odd[l][m]);
        }
        for half in [4, 2, 1] {
            for l in 0..half {
                sums[l] = _mm512_add_ps(sums[l], sums[l + half]);
            }
        }
        let mut offsets = _mm512_setzero_ps();
        if OFFSETS {
            for (weights, tile) in weights.iter().zip(tile) {
                let scale = _mm512_mul_ps(_mm512_set1_ps(weights.offset[m]), load(&tile.d));
                offsets = _mm512_fmadd_ps(scale, load(&tile.sum), offsets);
            }
        }
        // SAFETY: 16 floats.
        unsafe { _mm512_storeu_ps(out[m].as_mut_ptr(), _mm512_sub_ps(sums[0], offsets)) };
    }
    out
}

/// Eight float lanes for each row over every other block from `first` on.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
fn lanes(weights: &[Weights], tile: &[NarrowBlock], first: usize) -> [[__m512; ROWS]; 8] {
    let mut sums = [[_mm512_setzero_ps(); ROWS]; 8];
    let mut b = first;
    // (Not `step_by`: it is compiled without the target features, and calling it spills all 24 sums.)
    while let (Some(weights), Some(tile)) = (weights.get(b), tile.get(b)) {
        b += 2;
        let d = load(&tile.d);
        let mut scale = [d; ROWS];
        for (scale, factor) in scale.iter_mut().zip(&weights.factor) {
            *scale = _mm512_mul_ps(_mm512_set1_ps(*factor), d);
        }
        for (l, (sums, quants)) in sums.iter_mut().zip(&tile.quants).enumerate() {
            // SAFETY: 64 readable bytes.
            let x = unsafe { _mm512_loadu_si512(quants.as_ptr().cast()) };
            for m in 0..ROWS {
                let start = _mm512_set1_epi32(weights.start[m][l]);
                let total = _mm512_dpbusd_epi32(start, x, _mm512_set1_epi32(weights.quants[m][l]));
                sums[m] = _mm512_fmadd_ps(scale[m], _mm512_cvtepi32_ps(total), sums[m]);
            }
        }
    }
    sums
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load(from: &[f32; LANES]) -> __m512 {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}
