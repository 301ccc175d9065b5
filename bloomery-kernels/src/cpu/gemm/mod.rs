//! Products of many rows of activations with weights as they lie in the file.
//!
//! ```text
//! for each panel of 32 rows of weights                          (a task)
//!     for each block of 256 columns
//!         unpack the panel's block once                         -> 16 KiB of bytes in the first-level cache
//!         for each tile of 16 rows of activations
//!             32 x 16 exact integer totals                      (AMX tiles, VNNI or AVX2)
//!             sums = fma(d_weight * d_activation, total, sums)
//! ```
//!
//! The totals are exact and the float fold is the one of the single-row kernels, so the results are their bits.

//!
//! Formats of 32-value blocks go another way: see [`narrow`].

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod narrow;
#[cfg(target_arch = "x86_64")]
mod panel;
mod tile;
#[cfg(target_arch = "x86_64")]
mod unpack;
#[cfg(target_arch = "x86_64")]
mod wide;

use std::ops::Range;

use bloomery_gguf::Format;

use super::{Isa, Matrix};
pub(crate) use tile::{LANES, NarrowBlock, TileBlock, Tiles};

/// Rows of weights in a panel: two AMX tiles.
pub(crate) const PANEL: usize = 32;

/// Tiles of activations a panel is multiplied with at once; their sums (64 KiB) stay in the second-level cache.
const TILES: usize = 16;

/// Activation rows in [`TILES`] tiles.
pub(crate) const TILE_LANES: usize = TILES * LANES;

/// No kernel here is worth while for fewer activation rows.
pub(crate) const MANY: usize = 9;

/// The kernel of one format on one instruction set.
#[derive(Clone, Copy)]
pub(crate) enum Gemm {
    /// 256-value blocks.
    #[cfg(target_arch = "x86_64")]
    Wide(wide::Wide),
    /// 32-value blocks.
    #[cfg(target_arch = "x86_64")]
    Narrow(narrow::Narrow),
}

impl Gemm {
    /// The kernel, if `isa` has one for `format`; never one that this machine cannot run.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn new(isa: Isa, format: Format) -> Option<Self> {
        let isa = isa.min(Isa::detect());
        wide::Wide::new(isa, format)
            .map(Self::Wide)
            .or_else(|| narrow::Narrow::new(isa, format).map(Self::Narrow))
    }

    /// There are kernels for x86-64 only.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn new(_: Isa, _: Format) -> Option<Self> {
        None
    }

    /// The number of activation rows from which this beats single-row kernels, which serve 8 rows in a pass. (Times on one
    /// core with AMX, 768 x 2048: Q4_K 8 rows 107 us, here 16 rows 164 us; Q5_0 8 rows 209 us, here 16 rows 544 us and 64 rows
    /// 1280 us.)
    pub(crate) fn least(&self) -> usize {
        match *self {
            #[cfg(target_arch = "x86_64")]
            Self::Wide(_) => MANY,
            #[cfg(target_arch = "x86_64")]
            Self::Narrow(_) => 32,
        }
    }

    /// Rows `rows` (at most 32) of `weight` times the activations in lanes `lanes` of `tiles`; `lanes` starts at a tile.
    ///
    /// Calls `sink(lane, values of rows)` once for each lane, in ascending order.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "no kernels, so never called"))]
    pub(crate) fn run(
        &self,
        weight: &Matrix<'_>,
        rows: Range<usize>,
        tiles: Tiles<'_>,
        lanes: Range<usize>,
        sink: &mut dyn FnMut(usize, &[f32]),
    ) {
        match *self {
            #[cfg(target_arch = "x86_64")]
            Self::Wide(wide) => wide.run(weight, rows, tiles, lanes, sink),
            #[cfg(target_arch = "x86_64")]
            Self::Narrow(narrow) => narrow.run(weight, rows, tiles, lanes, sink),
        }
    }
}

#[cfg(test)]
mod tests;
