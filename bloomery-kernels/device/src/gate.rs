//! Values times the sigmoids of others.

use super::abi::rope::GateArgs;
use super::math::exp;
use super::simt::{
    await_predecessors, block, ld_global_f32x4, release_successor, st_global_f32x4, thread, threads,
};

/// Four values of each thread.
///
/// # Safety
/// The contract of `Gate::launch`.
#[inline(always)]
pub(crate) unsafe fn gate(args: GateArgs) {
    await_predecessors();
    release_successor();
    let four = block() * threads() + thread();
    if four >= args.fours {
        return;
    }
    let at = 16 * u64::from(four);
    let (mut x, gate) = (ld_global_f32x4(args.x + at), ld_global_f32x4(args.gate + at));
    let mut i = 0;
    while i < 4 {
        x[i] *= 1.0 / (1.0 + exp(0.0 - gate[i]));
        i += 1;
    }
    st_global_f32x4(args.x + at, x);
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::GateArgs;

    crate::simt::bounds!(gate, 256, 4);

    /// See [`gate`](super::gate).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn gate(args: GateArgs) {
        super::gate(args);
    }
}
