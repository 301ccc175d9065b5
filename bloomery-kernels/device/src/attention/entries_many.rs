//! Entry points of [`prefill`].

use super::abi::attention::AttendArgs;
use super::attention::ALL;
use super::attention::broad;
use super::attention::kind::{Half, Rounded};
use super::attention::prefill::prefill;
use super::simt::entries;

entries! {
    prefill_f16_64: 256, 1, prefill::<Half, 2, 4>, "Heads of up to 64 values.";
    prefill_f16_128: 256, 1, prefill::<Half, 4, 4>, "Heads of up to 128 values.";
    prefill_f16_256: 256, 1, prefill::<Half, 8, 2>, "Heads of up to 256 values.";
    prefill_q8_64: 256, 1, prefill::<Rounded, 2, 4>, "Heads of up to 64 values.";
    prefill_q8_128: 256, 1, prefill::<Rounded, 4, 4>, "Heads of up to 128 values.";
    prefill_q8_256: 256, 1, prefill::<Rounded, 8, 2>, "Heads of up to 256 values.";
    prefill_f16_576: 256, 1, broad::prefill::<Half, ALL>, "Keys of up to 576 and values of up to 512 values.";
    prefill_q8_576: 256, 1, broad::prefill::<Rounded, ALL>, "Keys of up to 576 and values of up to 512 values.";
}
