//! Entry points for rows that see chosen positions.

use super::abi::attention::AttendArgs;
use super::attention::BLOCKS;
use super::attention::broad;
use super::attention::decode::decode;
use super::attention::float;
use super::attention::kind::{Half, Rounded};
use super::simt::entries;

entries! {
    chosen_f16_256: 256, 1, decode::<Half, 8, 1, 2, 1, 8, BLOCKS>, "Heads of up to 256 values.";
    chosen_q8_256: 256, 1, decode::<Rounded, 8, 1, 2, 1, 8, BLOCKS>, "Heads of up to 256 values.";
    chosen_f16_512: 256, 1, decode::<Half, 16, 1, 2, 2, 16, BLOCKS>, "Heads of up to 512 values.";
    chosen_q8_512: 256, 1, decode::<Rounded, 16, 1, 2, 2, 8, BLOCKS>, "Heads of up to 512 values.";
    chosen_many_f16: 256, 1, broad::prefill::<Half, BLOCKS>, "Many rows of heads of up to 512 values.";
    chosen_many_q8: 256, 1, broad::prefill::<Rounded, BLOCKS>, "Many rows of heads of up to 512 values.";
    chosen_float: 128, 4, float::attend::<8, true>, "Caches of f32, values of up to 256.";
    chosen_float_wide: 128, 4, float::attend::<16, true>, "Caches of f32, values of up to 512.";
}
