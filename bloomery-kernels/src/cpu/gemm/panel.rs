//! Weights of up to 32 rows, one block of 256 at a time, unpacked to exact integers.
//!
//! A weight of a 256-value format is `d * scale * q` with small integers `scale` and `q`, so `v = scale * q` is an integer
//! of at most 13 bits and the sum over a block `sum v * a` needs no float at all. `v` (plus [`Layout::offset`], which
//! makes it non-negative) is split into two bytes, `v + offset = 256 * hi + lo`: two int8 products over the whole block
//! replace one product and one scaling for each of its 8 or 16 sub-blocks.

use bloomery_gguf::blocks::SuperBlock;

use super::super::Matrix;
use super::PANEL;

/// One block of 256 values of up to 32 rows. Rows beyond the last are zero.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Panel {
    /// Low bytes `[row / 16][k / 64][row % 16][k % 64]`: each 16 x 64 an AMX tile.
    pub(super) lo: [[[[u8; 64]; 16]; 4]; 2],
    /// High bytes, in the same order.
    pub(super) hi: [[[[u8; 64]; 16]; 4]; 2],
    /// Minimums, in pairs of 16 bits as the activations' sums are.
    pub(super) mins: [[i32; 8]; PANEL],
    /// Scales of the blocks.
    pub(super) d: [f32; PANEL],
    /// Scales of the blocks' minimums.
    pub(super) dmin: [f32; PANEL],
}

impl Panel {
    pub(super) const ZERO: Self = Self {
        lo: [[[[0; 64]; 16]; 4]; 2],
        hi: [[[[0; 64]; 16]; 4]; 2],
        mins: [[0; 8]; PANEL],
        d: [0.0; PANEL],
        dmin: [0.0; PANEL],
    };
}

/// What a kernel needs to know about a format beside its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Added to every weight: 0, or [`OFFSET`] where weights may be negative.
    pub(super) offset: i16,
    /// What the minimums are minimums of.
    pub(super) mins: Mins,
}

/// Makes every weight of every 256-value format non-negative: |scale * q| <= 128 * 32 (Q6_K; the others have less).
pub(super) const OFFSET: i16 = 4096;

/// Minimums of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mins {
    None,
    /// One for each 32 values.
    Each32,
    /// One for each 16 values.
    Each16,
}

/// Unpacks block `block` of the rows `first..first + count` of `weight`, `count <= 32`.
#[inline(always)]
pub(super) fn unpack<B: SuperBlock>(
    weight: &Matrix,
    first: usize,
    count: usize,
    block: usize,
    layout: Layout,
    panel: &mut Panel,
) {
    debug_assert!(count <= PANEL);
    for m in 0..count {
        let bytes = weight.row(first + m);
        let Some(from) = bytes.get(block * B::BYTES..).and_then(B::read) else { return };
        let (tile, row) = (m / 16, m % 16);
        for group in 0..8 {
            let quants = from.quants(group);
            let scales = [from.scale(2 * group) as i16, from.scale(2 * group + 1) as i16];
            let at = 32 * (group % 2);
            let lo: &mut [u8] = &mut panel.lo[tile][group / 2][row][at..at + 32];
            let hi: &mut [u8] = &mut panel.hi[tile][group / 2][row][at..at + 32];
            for l in 0..32 {
                let v = i16::from(quants[l]) * scales[l / 16] + layout.offset;
                lo[l] = v as u8;
                hi[l] = (v >> 8) as u8;
            }
        }
        match layout.mins {
            Mins::None => {}
            Mins::Each32 => {
                for pair in 0..4 {
                    panel.mins[m][pair] = from.min(4 * pair) | from.min(4 * pair + 2) << 16;
                }
            }
            Mins::Each16 => {
                for pair in 0..8 {
                    panel.mins[m][pair] = from.min(2 * pair) | from.min(2 * pair + 1) << 16;
                }
            }
        }
        panel.d[m] = from.d();
        panel.dmin[m] = from.dmin();
    }
}
