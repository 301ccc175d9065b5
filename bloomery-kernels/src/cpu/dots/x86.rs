//! Entry points of the vector tiers: one compiled body per format, tier and number of activation rows.

use super::{
    Floats, Ints, Target, Weights,
    avx2::{Y, Y2},
    avx512::Z,
    kquants::Wide,
    lanes,
    pairs::{self, Narrow, Single},
};
use crate::cpu::Isa;

/// Calls the instance of a body for a number of rows that [`super::batch`] makes, up to 4 or up to 8.
macro_rules! each_count {
    (4: $count:expr, $call:ident::<$arg:ty, _>($($value:expr),*)) => {
        match $count {
            1 => $call::<$arg, 1>($($value),*),
            2 => $call::<$arg, 2>($($value),*),
            4 => $call::<$arg, 4>($($value),*),
            count => unreachable!("{count} activation rows at once"),
        }
    };
    (8: $count:expr, $call:ident::<$arg:ty, _>($($value:expr),*)) => {
        match $count {
            8 => $call::<$arg, 8>($($value),*),
            count => each_count!(4: count, $call::<$arg, _>($($value),*)),
        }
    };
}

/// Products of a 256-value format.
///
/// # Safety
/// The contract of [`super`]; `isa` is at least AVX2.
pub(super) unsafe fn wide<F: Wide>(isa: Isa, w: Weights<'_>, x: Ints<'_>, out: Target<'_>) {
    // SAFETY: the caller's contract; the count that picks the instance is the number of rows.
    unsafe {
        if isa >= Isa::Avx512 {
            each_count!(8: x.rows.len(), wide_avx512::<F, _>(w, x, out))
        } else {
            each_count!(8: x.rows.len(), wide_avx2::<F, _>(w, x, out))
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn wide_avx512<F: Wide, const T: usize>(w: Weights<'_>, x: Ints<'_>, out: Target<'_>) {
    // SAFETY: the caller's contract.
    unsafe { lanes::wide::<Z, F, T>(w, x, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn wide_avx2<F: Wide, const T: usize>(w: Weights<'_>, x: Ints<'_>, out: Target<'_>) {
    // SAFETY: the caller's contract.
    unsafe { lanes::wide::<Y, F, T>(w, x, out) }
}

/// Products of a 32-value format.
///
/// # Safety
/// The contract of [`super`]; `isa` is at least AVX2.
pub(super) unsafe fn narrow<F: Narrow>(isa: Isa, w: Weights<'_>, x: Ints<'_>, out: Target<'_>) {
    // SAFETY: the caller's contract; the count that picks the instance is the number of rows.
    unsafe {
        if isa >= Isa::Avx512 {
            each_count!(4: x.rows.len(), narrow_avx512::<F, _>(w, x, out))
        } else {
            each_count!(4: x.rows.len(), narrow_avx2::<F, _>(w, x, out))
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn narrow_avx512<F: Narrow, const T: usize>(w: Weights<'_>, x: Ints<'_>, out: Target<'_>) {
    // Sixteen sums of sixteen lanes at most: they and the operands fit 32 registers.
    // SAFETY: the caller's contract.
    unsafe {
        if T <= 4 { pairs::narrow::<Z, F, 4, T>(w, x, out) } else { pairs::narrow::<Z, F, 2, T>(w, x, out) }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn narrow_avx2<F: Narrow, const T: usize>(w: Weights<'_>, x: Ints<'_>, out: Target<'_>) {
    // SAFETY: the caller's contract.
    unsafe {
        if T <= 2 { pairs::narrow::<Y2, F, 2, T>(w, x, out) } else { pairs::narrow::<Y2, F, 1, T>(w, x, out) }
    }
}

/// Products of a float format.
///
/// # Safety
/// The contract of [`super`]; `isa` is at least AVX2.
pub(super) unsafe fn float<F: Single>(isa: Isa, w: Weights<'_>, x: Floats<'_>, out: Target<'_>) {
    // SAFETY: the caller's contract; the count that picks the instance is the number of rows.
    unsafe {
        if isa >= Isa::Avx512 {
            each_count!(4: x.rows.len(), float_avx512::<F, _>(w, x, out))
        } else {
            each_count!(4: x.rows.len(), float_avx2::<F, _>(w, x, out))
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn float_avx512<F: Single, const T: usize>(w: Weights<'_>, x: Floats<'_>, out: Target<'_>) {
    // SAFETY: the caller's contract.
    unsafe { pairs::float::<Z, F, 4, T>(w, x, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn float_avx2<F: Single, const T: usize>(w: Weights<'_>, x: Floats<'_>, out: Target<'_>) {
    // SAFETY: the caller's contract.
    unsafe {
        if T <= 2 { pairs::float::<Y2, F, 2, T>(w, x, out) } else { pairs::float::<Y2, F, 1, T>(w, x, out) }
    }
}
