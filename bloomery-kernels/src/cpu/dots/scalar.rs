//! The definition of every product, in plain Rust. The vector tiers give these bits.

use bloomery_gguf::blocks::{Block, SuperBlock, bf16_to_f32, f16_to_f32};

use super::{Floats, Ints, MAX_ROWS, Target, Weights};

/// Adds 16 lanes in the one order that every tier uses: `i` and `i + 8`, then `+4`, `+2`, `+1`.
pub(super) fn tree(mut lanes: [f32; 16]) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}

/// 256-value formats: exact integer sums per block, folded over the blocks in ascending order.
pub(super) fn wide<B: SuperBlock>(w: Weights<'_>, x: Ints<'_>, mut out: Target<'_>) {
    for r in 0..w.rows() {
        let (mut acc, mut macc) = ([0f32; MAX_ROWS], [0f32; MAX_ROWS]);
        for (b, block) in blocks::<B>(w.row(r)).enumerate() {
            let quants: [[i8; 32]; 8] = std::array::from_fn(|group| block.quants(group));
            let scales: [i32; 16] = std::array::from_fn(|run| block.scale(run));
            let mins: [i32; 16] = std::array::from_fn(|run| block.min(run));
            for (t, &row) in x.rows.iter().take(out.rows).enumerate() {
                let d = x.q.scales(row)[b];
                let values = &x.q.values(row)[256 * b..][..256];
                let sums = &x.q.sums16(row)[16 * b..][..16];
                let (mut isum, mut msum) = (0, 0);
                for (run, values) in values.chunks_exact(16).enumerate() {
                    isum += scales[run] * dot(&quants[run / 2][16 * (run % 2)..], values);
                    msum += mins[run] * i32::from(sums[run]);
                }
                acc[t] = (block.d() * d).mul_add(isum as f32, acc[t]);
                macc[t] = (block.dmin() * d).mul_add(msum as f32, macc[t]);
            }
        }
        for t in 0..out.rows {
            out.set(t, r, acc[t] - macc[t]);
        }
    }
}

/// 32-value formats: 16 float lanes; block `b` adds to the eight lanes `8 * (b % 2)..`, lane `l` of a block being
/// the exact sum over its values `4 * l..4 * l + 4`. Offsets fold apart, over the blocks in ascending order.
pub(super) fn narrow<B: Block>(w: Weights<'_>, x: Ints<'_>, mut out: Target<'_>) {
    for r in 0..w.rows() {
        let (mut acc, mut macc) = ([[0f32; 16]; MAX_ROWS], [0f32; MAX_ROWS]);
        for (b, block) in blocks::<B>(w.row(r)).enumerate() {
            let (quants, factor, offset) = (block.quants(0), block.factor(0), block.offset(0));
            for (t, &row) in x.rows.iter().take(out.rows).enumerate() {
                let d = x.q.scales(row)[b];
                let values = &x.q.values(row)[32 * b..][..32];
                let lanes = &mut acc[t][8 * (b % 2)..][..8];
                for ((lane, q), values) in
                    lanes.iter_mut().zip(quants.chunks_exact(4)).zip(values.chunks_exact(4))
                {
                    *lane = (factor * d).mul_add(dot(q, values) as f32, *lane);
                }
                macc[t] = (offset * d).mul_add(f32::from(x.q.sums32(row)[b]), macc[t]);
            }
        }
        for t in 0..out.rows {
            out.set(t, r, tree(acc[t]) - macc[t]);
        }
    }
}

fn blocks<B: Block>(row: &[u8]) -> impl Iterator<Item = B> {
    row.chunks_exact(B::BYTES).filter_map(B::read)
}

/// The exact sum of products of the values that both have.
fn dot(q: &[i8], values: &[i8]) -> i32 {
    q.iter().zip(values).map(|(&q, &x)| i32::from(q) * i32::from(x)).sum()
}

/// A format of single floats.
pub(super) trait Float {
    /// Bytes of a value.
    const BYTES: usize;
    /// The value at the start of `bytes`.
    fn value(bytes: &[u8]) -> f32;
}

/// IEEE binary32.
pub(super) struct F32;
/// IEEE binary16.
pub(super) struct F16;
/// The upper half of a binary32.
pub(super) struct BF16;

impl Float for F32 {
    const BYTES: usize = 4;
    fn value(bytes: &[u8]) -> f32 {
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

impl Float for F16 {
    const BYTES: usize = 2;
    fn value(bytes: &[u8]) -> f32 {
        f16_to_f32(u16::from_le_bytes([bytes[0], bytes[1]]))
    }
}

impl Float for BF16 {
    const BYTES: usize = 2;
    fn value(bytes: &[u8]) -> f32 {
        bf16_to_f32(u16::from_le_bytes([bytes[0], bytes[1]]))
    }
}

/// Float formats: 16 lanes, value `i` in lane `i % 16`.
pub(super) fn float<F: Float>(w: Weights<'_>, x: Floats<'_>, mut out: Target<'_>) {
    for r in 0..w.rows() {
        for (t, &row) in x.rows.iter().take(out.rows).enumerate() {
            out.set(t, r, tree(add_lanes::<F>([0.0; 16], w.row(r), x.row(row))));
        }
    }
}

/// Adds the products of `w` and `x`, which start at a multiple of 16, to the lanes.
pub(super) fn add_lanes<F: Float>(mut lanes: [f32; 16], w: &[u8], x: &[f32]) -> [f32; 16] {
    for (i, (w, x)) in w.chunks_exact(F::BYTES).zip(x).enumerate() {
        lanes[i % 16] = F::value(w).mul_add(*x, lanes[i % 16]);
    }
    lanes
}
