//! Formats of 256-value blocks.

use std::ops::Range;

use bloomery_gguf::Format;
use bloomery_gguf::blocks::{BlockIQ4XS, BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K, SuperBlock};

use super::super::{Isa, Matrix};
use super::panel::{Layout, Mins, OFFSET, Panel};
use super::tile::TileBlock;
use super::{LANES, PANEL, TILES, Tiles, amx, avx2, avx512, panel, unpack};

/// Integer totals of a block for 16 rows of weights: `[tile of activations][row][lane]`, of the low and the high bytes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Totals {
    pub(super) lo: [[[i32; LANES]; 16]; 2],
    pub(super) hi: [[[i32; LANES]; 16]; 2],
}

impl Totals {
    pub(super) const ZERO: Self = Self { lo: [[[0; LANES]; 16]; 2], hi: [[[0; LANES]; 16]; 2] };
}

/// Float sums over blocks, 32 rows of weights x 16 rows of activations.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Sums {
    pub(super) dot: [[f32; LANES]; PANEL],
    pub(super) min: [[f32; LANES]; PANEL],
}

impl Sums {
    pub(super) const ZERO: Self = Self { dot: [[0.0; LANES]; PANEL], min: [[0.0; LANES]; PANEL] };
}

type Unpack = unsafe fn(&Matrix<'_>, usize, usize, usize, Layout, &mut Panel);
type Multiply = unsafe fn(&Panel, &[TileBlock], Layout, usize, &mut [Sums], &mut [Totals; 2]);
type Finish = unsafe fn(&Sums, &mut [[f32; PANEL]; LANES]);

/// The kernel of one format on one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Wide {
    layout: Layout,
    unpack: Unpack,
    multiply: Multiply,
    finish: Finish,
}

impl Wide {
    /// The kernel, if `isa` has one for `format`.
    pub(super) fn new(isa: Isa, format: Format) -> Option<Self> {
        const SIGNED: Layout = Layout { offset: OFFSET, mins: Mins::None };
        const UNSIGNED: Layout = Layout { offset: 0, mins: Mins::Each32 };
        match format {
            Format::Q2_K => {
                let layout = Layout { offset: 0, mins: Mins::Each16 };
                Self::of::<BlockQ2K>(isa, layout, unpack::any::<BlockQ2K>)
            }
            Format::IQ4_XS => Self::of::<BlockIQ4XS>(isa, SIGNED, unpack::any::<BlockIQ4XS>),
            Format::Q3_K => Self::of::<BlockQ3K>(isa, SIGNED, unpack::any::<BlockQ3K>),
            Format::Q4_K => Self::of::<BlockQ4K>(isa, UNSIGNED, unpack::q4_k),
            Format::Q5_K => Self::of::<BlockQ5K>(isa, UNSIGNED, unpack::q5_k),
            Format::Q6_K => Self::of::<BlockQ6K>(isa, SIGNED, unpack::q6_k),
            _ => None,
        }
    }

    fn of<B: SuperBlock>(isa: Isa, layout: Layout, unpack: Unpack) -> Option<Self> {
        let (unpack, multiply, finish): (Unpack, Multiply, Finish) = match isa {
            Isa::Amx => (unpack, amx::multiply, avx512::finish),
            Isa::Avx512 => (unpack, avx512::multiply, avx512::finish),
            Isa::Avx2 => (unpack_avx2::<B>, avx2::multiply, finish),
            Isa::Scalar => return None,
        };
        Some(Self { layout, unpack, multiply, finish })
    }

    /// Rows `rows` (at most 32) of `weight` times the activations in lanes `lanes` of `tiles`; `lanes` starts at a tile.
    ///
    /// Calls `sink(lane, values of rows)` once for each lane, in ascending order.
    pub(super) fn run(
        &self,
        weight: &Matrix<'_>,
        rows: Range<usize>,
        tiles: Tiles<'_>,
        lanes: Range<usize>,
        sink: &mut dyn FnMut(usize, &[f32]),
    ) {
        debug_assert!(lanes.start.is_multiple_of(LANES) && rows.len() <= PANEL);
        let count = rows.len().min(PANEL);
        let (start, end) = (lanes.start / LANES, lanes.end.div_ceil(LANES));
        let mut panel = Panel::ZERO;
        let mut totals = [Totals::ZERO; 2];
        for first in (start..end).step_by(TILES) {
            let wanted = first..(first + TILES).min(end);
            let mut sums = [Sums::ZERO; TILES];
            let sums = &mut sums[..wanted.len()];
            for block in 0..tiles.cols / 256 {
                // SAFETY: `Gemm::new` passes an instruction set that this machine has, and `new` chose functions for it.
                unsafe {
                    (self.unpack)(weight, rows.start, count, block, self.layout, &mut panel);
                    let tiles = &tiles.wide_of(block)[wanted.clone()];
                    (self.multiply)(&panel, tiles, self.layout, count, sums, &mut totals);
                }
            }
            let mut out = [[0.0; PANEL]; LANES];
            for (tile, sums) in wanted.zip(sums.iter()) {
                // SAFETY: as above.
                unsafe { (self.finish)(sums, &mut out) };
                for (lane, values) in (LANES * tile..lanes.end).zip(&out) {
                    sink(lane, &values[..count]);
                }
            }
        }
    }
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2,fma")]
unsafe fn unpack_avx2<B: SuperBlock>(
    weight: &Matrix,
    first: usize,
    count: usize,
    block: usize,
    layout: Layout,
    panel: &mut Panel,
) {
    panel::unpack::<B>(weight, first, count, block, layout, panel);
}

/// `out[lane][row] = dot[row][lane] - min[row][lane]`.
fn finish(sums: &Sums, out: &mut [[f32; PANEL]; LANES]) {
    for (lane, out) in out.iter_mut().enumerate() {
        for (m, out) in out.iter_mut().enumerate() {
            *out = sums.dot[m][lane] - sums.min[m][lane];
        }
    }
}
