//! Operands of the tensor cores for weights of floats, from the rows of a stage.
//!
//! A lane has 16 neighbouring bytes of a row, of weights as of activations: which columns a product takes together does not matter, as
//! long as both factors agree. Nothing is shuffled, and no two lanes meet in a bank.
//!
//! How far off the sum of a row's products is, with `S` the sum of their magnitudes: by what activations lose when they are cut in two, at
//! most `2^-22 S` beside F16 (and `2^-40` of the row's largest value for each), `2^-18 S` beside BF16, `3 * 2^-20 S` beside F32, where
//! weights are cut too; and by sums. Those of a piece, 32 columns (F32: 16), start at zero; tensor cores cut off what is below the last
//! bit, 4 (F32: 6) times, at most `2^-21 S` (F32: `2^-20 S`). Sums of pieces are f32, rounded to nearest.

use super::super::simt::{lane, ld_shared_u32x4, mma, mma_bf16, mma_tf32};

/// A lane's operands of 16 rows of weights, for both halves of a piece.
pub(crate) type Weights = [[u32; 4]; 2];

/// How weights are multiplied.
pub(crate) trait Kind {
    /// Pieces that a row of activations has in a stage.
    const PLANES: u32;
    /// Pieces of 16 bytes that lie side by side in memory and in a stage: of a row, or of 16 rows in the order of operands.
    const SIDE: u32;

    /// Operands of the 16 rows at `at` of a stage.
    ///
    /// # Safety
    /// They have come in.
    #[inline(always)]
    unsafe fn weights(at: u32) -> Weights {
        // Rows of 64 bytes: lane 4 g + t has the t-th quarter of rows g and g + 8.
        let (low, high) = (ld_shared_u32x4(at + 16 * lane()), ld_shared_u32x4(at + 512 + 16 * lane()));
        [[low[0], high[0], low[1], high[1]], [low[2], high[2], low[3], high[3]]]
    }

    /// The products of 16 rows with 8 rows of activations, of which the lane has a quarter of one: rounded, and the rest.
    ///
    /// # Safety
    /// All lanes of the warp get here.
    unsafe fn product(w: &Weights, x: &[[u32; 4]; 2]) -> [f32; 4];
}

/// F16, in rows.
pub(crate) struct Half;
/// F16, in the order of operands.
pub(crate) struct Packed;
/// BF16.
pub(crate) struct Bfloat;
/// F32.
pub(crate) struct Single;

impl Kind for Half {
    const PLANES: u32 = 2;
    const SIDE: u32 = 4;

    #[inline(always)]
    unsafe fn product(w: &Weights, [high, low]: &[[u32; 4]; 2]) -> [f32; 4] {
        let b = [[low[0], low[1]], [low[2], low[3]], [high[0], high[1]], [high[2], high[3]]];
        mma([0.0; 4], [w[0], w[1], w[0], w[1]], b)
    }
}

impl Kind for Packed {
    const PLANES: u32 = 2;
    const SIDE: u32 = 64;

    #[inline(always)]
    unsafe fn weights(at: u32) -> Weights {
        [ld_shared_u32x4(at + 16 * lane()), ld_shared_u32x4(at + 512 + 16 * lane())]
    }

    #[inline(always)]
    unsafe fn product(w: &Weights, x: &[[u32; 4]; 2]) -> [f32; 4] {
        Half::product(w, x)
    }
}

impl Kind for Bfloat {
    const PLANES: u32 = 2;
    const SIDE: u32 = 4;

    #[inline(always)]
    unsafe fn product(w: &Weights, [high, low]: &[[u32; 4]; 2]) -> [f32; 4] {
        let mut sum = mma_bf16([0.0; 4], w[0], [low[0], low[1]]);
        sum = mma_bf16(sum, w[1], [low[2], low[3]]);
        sum = mma_bf16(sum, w[0], [high[0], high[1]]);
        mma_bf16(sum, w[1], [high[2], high[3]])
    }
}

/// A float without its low 13 bits, and what they are worth.
#[inline(always)]
fn cut(bits: u32) -> [u32; 2] {
    let high = bits & 0xffff_e000;
    [high, (f32::from_bits(bits) - f32::from_bits(high)).to_bits()]
}

#[inline(always)]
fn cut_all<const N: usize>(words: [u32; N]) -> [[u32; N]; 2] {
    let (mut out, mut i) = ([[0; N]; 2], 0);
    while i < N {
        [out[0][i], out[1][i]] = cut(words[i]);
        i += 1;
    }
    out
}

impl Kind for Single {
    const PLANES: u32 = 1;
    const SIDE: u32 = 4;

    #[inline(always)]
    unsafe fn product(w: &Weights, [x, _]: &[[u32; 4]; 2]) -> [f32; 4] {
        let ([w0, w0_rest], [w1, w1_rest]) = (cut_all(w[0]), cut_all(w[1]));
        let ([x0, x0_rest], [x1, x1_rest]) = (cut_all([x[0], x[1]]), cut_all([x[2], x[3]]));
        let mut sum = mma_tf32([0.0; 4], w0_rest, x0);
        sum = mma_tf32(sum, w1_rest, x1);
        sum = mma_tf32(sum, w0, x0_rest);
        sum = mma_tf32(sum, w1, x1_rest);
        sum = mma_tf32(sum, w0, x0);
        mma_tf32(sum, w1, x1)
    }
}
