//! What the hardware offers to a thread: where it is, barriers, shuffles, shared memory, packed integer products.
//!
//! Pairs of files with one surface. On the card a function is an instruction or two. On the host every thread of a block is
//! a coroutine, so that the kernels run (slowly, with the same bits) in tests without a card; there
//! alignment and bounds of shared memory are checked, and copies that nobody waited for have not happened.
//!
//! Shared memory is addressed by byte offsets that start at [`shared_base`].

#[cfg(target_arch = "nvptx64")]
mod gpu;
#[cfg(not(target_arch = "nvptx64"))]
mod host;
#[cfg(not(target_arch = "nvptx64"))]
mod host_run;
#[cfg(not(target_arch = "nvptx64"))]
mod host_system;
#[cfg(not(target_arch = "nvptx64"))]
mod host_tensor;

#[cfg(target_arch = "nvptx64")]
pub(crate) use gpu::*;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host::*;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host_system::*;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host_tensor::*;

/// Threads of a warp.
pub(crate) const WARP: u32 = 32;

/// Number of this thread in its warp.
#[inline(always)]
pub(crate) fn lane() -> u32 {
    thread() % WARP
}

/// Number of this thread's warp in its block.
#[inline(always)]
pub(crate) fn warp() -> u32 {
    thread() / WARP
}

/// [`warp`] in a form that the compiler knows to be the same in all lanes, so that what follows from it can live in the
/// registers that all lanes share.
///
/// # Safety
/// Every lane of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn uniform_warp() -> u32 {
    shfl(warp(), 0)
}

/// Warps of a block.
#[inline(always)]
pub(crate) fn warps() -> u32 {
    threads() / WARP
}

/// `a / b` and the rest.
///
/// # Safety
/// `b` is not 0.
#[inline(always)]
pub(crate) unsafe fn divide(a: u32, b: u32) -> (u32, u32) {
    debug_assert!(b != 0);
    if b == 0 {
        core::hint::unreachable_unchecked();
    }
    (a / b, a % b)
}

/// [`shfl_xor`] of a float.
///
/// # Safety
/// As [`shfl_xor`].
#[inline(always)]
pub(crate) unsafe fn shfl_xor_f32(value: f32, mask: u32) -> f32 {
    f32::from_bits(shfl_xor(value.to_bits(), mask))
}

/// A float of shared memory.
///
/// # Safety
/// As [`ld_shared_u32`].
#[inline(always)]
pub(crate) unsafe fn ld_shared_f32(at: u32) -> f32 {
    f32::from_bits(ld_shared_u32(at))
}

/// Writes a float to shared memory.
///
/// # Safety
/// As [`st_shared_u32`].
#[inline(always)]
pub(crate) unsafe fn st_shared_f32(at: u32, value: f32) {
    st_shared_u32(at, value.to_bits());
}
