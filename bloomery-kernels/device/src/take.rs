//! Rows that are wanted.

use super::abi::take::TakeArgs;
use super::simt::{
    await_predecessors, block, blocks, divide, ld_global_f32x4, ld_global_u32, release_successor,
    st_global_f32x4, thread, threads,
};

/// `to[i] = from[rows[i]]`, 16 bytes a thread.
///
/// # Safety
/// The contract of `Take`: buffers of the lengths in [`TakeArgs`], aligned to 16 bytes, `cols` a multiple of 4.
#[inline(always)]
pub(crate) unsafe fn take(args: TakeArgs) {
    await_predecessors();
    release_successor();
    let quads = args.cols / 4;
    let mut at = block() * threads() + thread();
    while at < args.count * quads {
        let (i, quad) = divide(at, quads);
        let row = ld_global_u32(args.rows + 4 * u64::from(i));
        let quads = u64::from(quads);
        let from = args.from + 16 * (u64::from(row) * quads + u64::from(quad));
        let values = if row < args.have { ld_global_f32x4(from) } else { [0.0; 4] };
        st_global_f32x4(args.to + 16 * (u64::from(i) * quads + u64::from(quad)), values);
        at += blocks() * threads();
    }
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::TakeArgs;

    crate::simt::bounds!(take, 256, 4);

    /// See [`take`](super::take).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn take(args: TakeArgs) {
        super::take(args);
    }
}
