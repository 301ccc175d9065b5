//! Entry points of [`decode`] and of caches of f32.

use super::abi::attention::AttendArgs;
use super::attention::ALL;
use super::attention::decode::decode;
use super::attention::float;
use super::attention::kind::{Half, Rounded};
use super::simt::entries;

/// As many as fit into the registers of two blocks.
const BATCH: usize = if cfg!(feature = "sm_90") { 16 } else { 8 };

entries! {
    decode_f16_64: 128, 3, decode::<Half, 2, 2, 1, 1, BATCH, ALL>, "Heads of up to 64 values.";
    decode_f16_128: 256, 2, decode::<Half, 4, 1, 1, 1, BATCH, ALL>, "Heads of up to 128 values.";
    decode_f16_256: 256, 1, decode::<Half, 8, 1, 2, 1, 8, ALL>, "Heads of up to 256 values.";
    decode_q8_64: 128, 3, decode::<Rounded, 2, 2, 1, 1, 8, ALL>, "Heads of up to 64 values.";
    decode_q8_128: 256, 2, decode::<Rounded, 4, 1, 1, 1, 8, ALL>, "Heads of up to 128 values.";
    decode_q8_256: 256, 1, decode::<Rounded, 8, 1, 2, 1, 8, ALL>, "Heads of up to 256 values.";
    decode_f16_576: 256, 1, decode::<Half, 18, 1, 2, 2, 16, ALL>, "Keys of up to 576 and values of up to 512 values.";
    decode_q8_576: 256, 1, decode::<Rounded, 18, 1, 2, 2, 8, ALL>, "Keys of up to 576 and values of up to 512 values.";
    attend_float: 128, 4, float::attend::<8, false>, "Caches of f32, values of up to 256.";
    attend_float_wide: 128, 4, float::attend::<16, false>, "Caches of f32, values of up to 512.";
}
