//! Entry points of rotation and append, which other families have in kernels of their own.

use super::abi::rope::{LatentArgs, RopeArgs};
use super::{latent, rope};

crate::simt::bounds!(rope_append, 128, 4);
crate::simt::bounds!(latent_append, 128, 4);

/// See [`rope_append`](rope::rope_append).
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn rope_append(args: RopeArgs) {
    rope::rope_append(args);
}

/// See [`latent_append`](latent::latent_append).
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn latent_append(args: LatentArgs) {
    latent::latent_append(args);
}
