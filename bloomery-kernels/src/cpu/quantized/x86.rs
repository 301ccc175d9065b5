//! The rounding compiled for AVX2 and AVX-512: the compiler vectorises the one definition.

use super::{RowPart, round_row};

/// Quantises a row with 32-byte vectors. The machine must have the features.
#[target_feature(enable = "avx2,fma")]
pub(super) fn row_avx2<const LEN: usize>(x: &[f32], part: RowPart<'_>) {
    round_row::<LEN>(x, part);
}

/// Quantises a row with 64-byte vectors. The machine must have the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) fn row_avx512<const LEN: usize>(x: &[f32], part: RowPart<'_>) {
    round_row::<LEN>(x, part);
}
