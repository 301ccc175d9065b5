//! Reading vectors of keys and values from one head's part of a page, by element type.
//!
//! Every type yields the exact f32 values (an f16 scale times an int8 fits an f32), so arithmetic does not depend on
//! whether a page was converted before.

use crate::cpu::kv::{GROUP, KEY_GROUP, PAGE};
use crate::cpu::lanes::{LANES, Lanes};

/// An element type. All pointers are to one head's part of a page, of keys or values of `dim` dimensions; the machine
/// has the instruction set of `V`; blocks, dimensions and positions are in range.
pub(super) trait Source {
    /// Key dimensions that share scales.
    const GROUP: usize;
    /// Value dimensions that share scales.
    const VALUE_GROUP: usize;
    /// Whether values need scales.
    const SCALED: bool;
    /// Whether to ask for the next page while one is used: not f32, which mostly is a page converted before.
    const AHEAD: bool;
    /// Bytes of an element.
    const BYTES: usize;

    /// Scales of 16 positions (`block`) for the key dimensions `group * GROUP..`.
    unsafe fn key_scales<V: Lanes>(keys: *const u8, dim: usize, block: usize, group: usize) -> V;
    /// Dimension `d` of the keys at 16 positions.
    unsafe fn key<V: Lanes>(keys: *const u8, dim: usize, block: usize, d: usize, scales: V) -> V;
    /// Scales of all positions for the value dimensions around `d`.
    unsafe fn value_scales<V: Lanes>(values: *const u8, dim: usize, d: usize, scales: &mut [f32; PAGE]);
    /// Dimensions `d..d + 16` of the value at `position`.
    unsafe fn value<V: Lanes>(values: *const u8, dim: usize, position: usize, d: usize, scale: f32) -> V;
}

/// f32.
pub(super) struct Full;
/// IEEE half precision.
pub(super) struct Half;
/// int8 with an f16 scale for 32 dimensions.
pub(super) struct Eight;

macro_rules! unscaled {
    ($source:ty, $element:ty, $load:ident) => {
        impl Source for $source {
            const GROUP: usize = KEY_GROUP;
            const VALUE_GROUP: usize = LANES;
            const SCALED: bool = false;
            const AHEAD: bool = size_of::<$element>() < 4;
            const BYTES: usize = size_of::<$element>();

            #[inline(always)]
            unsafe fn key_scales<V: Lanes>(_: *const u8, _: usize, _: usize, _: usize) -> V {
                // SAFETY: the instruction set is the trait's contract. (Unused, so it costs nothing.)
                unsafe { V::splat(1.0) }
            }

            #[inline(always)]
            unsafe fn key<V: Lanes>(keys: *const u8, dim: usize, block: usize, d: usize, _: V) -> V {
                // SAFETY: `(block * dim + d) * 16 + 16` elements are in the page by the trait's contract.
                unsafe { V::$load(keys.cast::<$element>().add((block * dim + d) * LANES)) }
            }

            #[inline(always)]
            unsafe fn value_scales<V: Lanes>(_: *const u8, _: usize, _: usize, _: &mut [f32; PAGE]) {}

            #[inline(always)]
            unsafe fn value<V: Lanes>(values: *const u8, dim: usize, position: usize, d: usize, _: f32) -> V {
                // SAFETY: `position * dim + d + 16` elements are in the page by the trait's contract.
                unsafe { V::$load(values.cast::<$element>().add(position * dim + d)) }
            }
        }
    };
}

unscaled!(Full, f32, load);
unscaled!(Half, u16, load_f16);

impl Source for Eight {
    const GROUP: usize = GROUP;
    const VALUE_GROUP: usize = GROUP;
    const SCALED: bool = true;
    const AHEAD: bool = true;
    const BYTES: usize = 1;

    #[inline(always)]
    unsafe fn key_scales<V: Lanes>(keys: *const u8, dim: usize, block: usize, group: usize) -> V {
        let index = (block * (dim / GROUP) + group) * LANES;
        // SAFETY: the scales follow the PAGE * dim int8 values, 16 for each block and group.
        unsafe { V::load_f16(keys.add(PAGE * dim).cast::<u16>().add(index)) }
    }

    #[inline(always)]
    unsafe fn key<V: Lanes>(keys: *const u8, dim: usize, block: usize, d: usize, scales: V) -> V {
        // SAFETY: as for the other types.
        unsafe { V::load_i8(keys.cast::<i8>().add((block * dim + d) * LANES)).mul(scales) }
    }

    #[inline(always)]
    unsafe fn value_scales<V: Lanes>(values: *const u8, dim: usize, d: usize, scales: &mut [f32; PAGE]) {
        for block in 0..PAGE / LANES {
            // SAFETY: the scales follow the PAGE * dim int8 values, 64 for each group of 32 dimensions.
            unsafe {
                let from = values.add(PAGE * dim).cast::<u16>().add(d / GROUP * PAGE + block * LANES);
                V::load_f16(from).store(scales.as_mut_ptr().add(block * LANES));
            }
        }
    }

    #[inline(always)]
    unsafe fn value<V: Lanes>(values: *const u8, dim: usize, position: usize, d: usize, scale: f32) -> V {
        // SAFETY: as for the other types.
        unsafe { V::load_i8(values.cast::<i8>().add(position * dim + d)).mul(V::splat(scale)) }
    }
}
