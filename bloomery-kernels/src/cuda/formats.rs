//! Which weights the kernels read.

use bloomery_gguf::Format;

use crate::abi::formats::Q5_1;
use crate::abi::shape::{self, Class};
use crate::abi::tiles::kept;

/// Whether matrices of this format and this many columns have products on a card.
#[must_use]
pub fn multiplies(format: Format, cols: usize) -> bool {
    shape::class(format.id()).is_some_and(|class| cols > 0 && cols.is_multiple_of(class.block() as usize))
}

/// Whether weights of this format are floats, which products on a card take as they are.
#[must_use]
pub fn is_float(format: Format) -> bool {
    shape::class(format.id()) == Some(Class::Float)
}

/// Whether gates and up projections of feed-forward blocks may have this format, if there are [products](multiplies) with it: the
/// kernels of few rows have no registers left for one that needs as many as Q5_1 does.
#[must_use]
pub fn gates(format: Format) -> bool {
    kept(format.id()) != Q5_1
}

/// Whether [`Embed`](super::Embed) reads tables of this format.
#[must_use]
pub fn embeds(format: Format) -> bool {
    !matches!(format, Format::I8 | Format::I16 | Format::I32 | Format::I64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_without_a_class_are_not_multiplied() {
        assert!(
            multiplies(Format::Q4_K, 2048) && multiplies(Format::BF16, 72) && multiplies(Format::Q8_0, 96)
        );
        assert!(
            !multiplies(Format::Q4_K, 2048 + 32)
                && !multiplies(Format::Q2_K, 2048)
                && !multiplies(Format::F32, 0)
        );
        assert!(multiplies(Format::Q5_1, 96) && !gates(Format::Q5_1) && !gates(Format::Q4_1));
        assert!(gates(Format::Q4_K) && gates(Format::BF16));
        assert!(embeds(Format::Q2_K) && !embeds(Format::I32));
    }
}
