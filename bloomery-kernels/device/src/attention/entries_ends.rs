//! Entry points of layers that see a window, and the ends of groups.

use super::abi::attention::AttendArgs;
use super::abi::rope::{BlendArgs, RopeArgs};
use super::attention::decode::decode;
use super::attention::kind::{Half, Rounded};
use super::attention::{ENDS, PART, broad};
use super::simt::entries;
use super::{blend, shared};

entries! {
    part_f16_512: 256, 1, decode::<Half, 16, 1, 2, 2, 8, PART>, "Heads of up to 512 values.";
    part_q8_512: 256, 1, decode::<Rounded, 16, 1, 2, 2, 8, PART>, "Heads of up to 512 values.";
    ends_f16_512: 256, 1, decode::<Half, 16, 1, 2, 2, 8, ENDS>, "Heads of up to 512 values.";
    ends_many_f16: 256, 1, broad::prefill::<Half, ENDS>, "Many rows of heads of up to 512 values.";
    ends_many_q8: 256, 1, broad::prefill::<Rounded, ENDS>, "Any number of rows of heads of up to 512 values.";
}

crate::simt::bounds!(shared_append, 128, 4);
crate::simt::bounds!(blend, 128, 4);

/// See [`shared_append`](shared::shared_append).
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn shared_append(args: RopeArgs) {
    shared::shared_append(args);
}

/// See [`blend`](blend::blend).
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn blend(args: BlendArgs) {
    blend::blend(args);
}
