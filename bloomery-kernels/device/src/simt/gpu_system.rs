//! What the card shares with the host: loads, stores and fences that both see, and the time.

use core::arch::asm;

/// Orders this thread's accesses, and those that it knows of, for the host too.
///
/// # Safety
/// None.
#[inline(always)]
pub(crate) unsafe fn fence_system() {
    asm!("fence.acq_rel.sys;", options(nostack));
}

/// Two words that the host writes as one; what it wrote before is seen after.
///
/// # Safety
/// `at` is aligned to 8 bytes and valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_system_acquire_u64(at: u64) -> u64 {
    let out: u64;
    asm!("ld.acquire.sys.global.b64 {}, [{}];", out(reg64) out, in(reg64) at, options(nostack));
    out
}

/// Four floats that the host wrote; the sign that they are there was seen before.
///
/// # Safety
/// `at` is aligned to 16 bytes and valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_system_f32x4(at: u64) -> [f32; 4] {
    let (a, b, c, d): (f32, f32, f32, f32);
    asm!("ld.relaxed.sys.global.v4.f32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) at, options(nostack));
    [a, b, c, d]
}

/// Writes two words as one, for the host.
///
/// # Safety
/// `at` is aligned to 8 bytes and valid for writes.
#[inline(always)]
pub(crate) unsafe fn st_system_u64(at: u64, value: u64) {
    asm!("st.relaxed.sys.global.b64 [{}], {};", in(reg64) at, in(reg64) value, options(nostack));
}

/// Two words that other blocks write as one.
///
/// # Safety
/// `at` is aligned to 8 bytes and valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_relaxed_u64(at: u64) -> u64 {
    let out: u64;
    asm!("ld.relaxed.gpu.global.b64 {}, [{}];", out(reg64) out, in(reg64) at, options(nostack));
    out
}

/// Writes two words as one.
///
/// # Safety
/// `at` is aligned to 8 bytes and valid for writes.
#[inline(always)]
pub(crate) unsafe fn st_relaxed_u64(at: u64, value: u64) {
    asm!("st.relaxed.gpu.global.b64 [{}], {};", in(reg64) at, in(reg64) value, options(nostack));
}

/// A time that goes on while the kernel runs, in steps of up to a millisecond.
///
/// # Safety
/// None.
#[inline(always)]
pub(crate) unsafe fn nanoseconds() -> u64 {
    let out: u64;
    asm!("mov.u64 {}, %globaltimer;", out(reg64) out, options(nostack));
    out
}
