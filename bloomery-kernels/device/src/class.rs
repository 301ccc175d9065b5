//! The formats of a class behind one call.

use super::abi::{formats, shape::Class};
use super::dots::{BF16, F16, F32};
use super::ring::{Item, Sums, products};
use super::stages::{Ring, Supply};

/// Formats that read the same activations.
pub(crate) trait Formats {
    const CLASS: Class;

    /// [`products`] of a format of the class.
    ///
    /// # Safety
    /// As [`products`]; `format` is one of the class.
    unsafe fn products<const R: usize, const T: usize>(
        format: u32,
        item: &Item<'_, R, T>,
        ring: &mut Ring,
        supply: &mut impl Supply,
    ) -> Sums<R, T>;
}

/// Floats.
pub(crate) struct Float;

macro_rules! class {
    ($name:ident: $other:ty $(, $format:ident => $type:ty)*) => {
        impl Formats for $name {
            const CLASS: Class = Class::$name;

            #[inline(always)]
            unsafe fn products<const R: usize, const T: usize>(
                format: u32,
                item: &Item<'_, R, T>,
                ring: &mut Ring,
                supply: &mut impl Supply,
            ) -> Sums<R, T> {
                match format {
                    $(formats::$format => products::<$type, R, T>(item, ring, supply),)*
                    _ => products::<$other, R, T>(item, ring, supply),
                }
            }
        }
    };
}

// The first is the one that needs no test.
class!(Float: BF16, F32 => F32, F16 => F16);
