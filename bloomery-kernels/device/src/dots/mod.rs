//! Products of a unit of weights, straight from the file's block layout, with the same unit of activations.
//!
//! A lane reads and unpacks its unit of `R` rows once and multiplies it with `T` rows of activations. The integer sum of a
//! unit is exact; what is added to the accumulator is rounded, in the order of the lane's units.
//!
//! # Contract
//! `w` are the shared addresses of the chunks of `R` rows, each with room for the 16-byte pieces that its ends lie in, and
//! aligned as the format's rows are; `u` is a unit of the chunk, `ux` the same unit of the whole row; `x` are the rows of
//! activations in the layout `layout` of the format's class. All copies into that memory have been waited for.

mod float;

pub(crate) use float::{BF16, F16, F32};

use super::activations::Layout;

/// One format.
pub(crate) trait Format {
    /// `acc[r][t] +=` the products of the unit.
    ///
    /// # Safety
    /// The contract of [`super::dots`].
    unsafe fn add<const R: usize, const T: usize>(
        w: &[u32; R],
        u: u32,
        ux: u32,
        layout: Layout,
        x: &[u32; T],
        acc: &mut [[f32; T]; R],
    );
}
