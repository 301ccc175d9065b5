//! Loads, stores and copies, of shared and of global memory.

use core::arch::asm;

/// A 16-bit word of shared memory.
///
/// # Safety
/// `at` is aligned and inside the block's shared memory.
#[inline(always)]
pub(crate) unsafe fn ld_shared_u16(at: u32) -> u16 {
    let out: u16;
    asm!("ld.shared.u16 {}, [{}];", out(reg16) out, in(reg32) at, options(pure, readonly, nostack));
    out
}

/// A 32-bit word of shared memory.
///
/// # Safety
/// `at` is aligned and inside the block's shared memory.
#[inline(always)]
pub(crate) unsafe fn ld_shared_u32(at: u32) -> u32 {
    let out: u32;
    asm!("ld.shared.b32 {}, [{}];", out(reg32) out, in(reg32) at, options(pure, readonly, nostack));
    out
}

/// Two words of shared memory.
///
/// # Safety
/// `at` is aligned to 8 bytes and inside the block's shared memory.
#[inline(always)]
pub(crate) unsafe fn ld_shared_u32x2(at: u32) -> [u32; 2] {
    let (a, b): (u32, u32);
    asm!("ld.shared.v2.b32 {{{}, {}}}, [{}];", out(reg32) a, out(reg32) b, in(reg32) at, options(pure, readonly, nostack));
    [a, b]
}

/// Four words of shared memory.
///
/// # Safety
/// `at` is aligned to 16 bytes and inside the block's shared memory.
#[inline(always)]
pub(crate) unsafe fn ld_shared_u32x4(at: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    asm!("ld.shared.v4.b32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) at, options(pure, readonly, nostack));
    [a, b, c, d]
}

/// Writes a byte to shared memory.
///
/// # Safety
/// `at` is inside the block's shared memory.
#[inline(always)]
pub(crate) unsafe fn st_shared_u8(at: u32, value: u32) {
    asm!("st.shared.u8 [{}], {};", in(reg32) at, in(reg32) value, options(nostack));
}

/// A byte of shared memory.
///
/// # Safety
/// `at` is inside the block's shared memory.
#[inline(always)]
pub(crate) unsafe fn ld_shared_u8(at: u32) -> u32 {
    let out: u32;
    asm!("ld.shared.u8 {}, [{}];", out(reg32) out, in(reg32) at, options(pure, readonly, nostack));
    out
}

/// Writes the low half of a word to shared memory.
///
/// # Safety
/// `at` is aligned and inside the block's shared memory.
#[inline(always)]
pub(crate) unsafe fn st_shared_u16(at: u32, value: u32) {
    asm!("st.shared.b16 [{}], {};", in(reg32) at, in(reg16) value as u16, options(nostack));
}

/// Writes a word to shared memory.
///
/// # Safety
/// `at` is aligned and inside the block's shared memory.
#[inline(always)]
pub(crate) unsafe fn st_shared_u32(at: u32, value: u32) {
    asm!("st.shared.b32 [{}], {};", in(reg32) at, in(reg32) value, options(nostack));
}

/// Writes two words to shared memory.
///
/// # Safety
/// `at` is aligned to 8 bytes and inside the block's shared memory.
#[inline(always)]
pub(crate) unsafe fn st_shared_u32x2(at: u32, v: [u32; 2]) {
    asm!("st.shared.v2.b32 [{}], {{{}, {}}};", in(reg32) at, in(reg32) v[0], in(reg32) v[1], options(nostack));
}

/// Writes four words to shared memory.
///
/// # Safety
/// `at` is aligned to 16 bytes and inside the block's shared memory.
#[inline(always)]
pub(crate) unsafe fn st_shared_u32x4(at: u32, v: [u32; 4]) {
    asm!("st.shared.v4.b32 [{}], {{{}, {}, {}, {}}};", in(reg32) at, in(reg32) v[0], in(reg32) v[1], in(reg32) v[2], in(reg32) v[3], options(nostack));
}

/// Starts to copy 16 bytes from global to shared memory.
///
/// # Safety
/// Both addresses are aligned to 16 bytes and valid; nobody uses the bytes at `to` before the copy was waited for.
#[inline(always)]
pub(crate) unsafe fn copy_async16(to: u32, from: u64) {
    asm!("cp.async.cg.shared.global [{}], [{}], 16;", in(reg32) to, in(reg64) from, options(nostack));
}

/// Closes the group of copies that this thread started.
///
/// # Safety
/// None.
#[inline(always)]
pub(crate) unsafe fn copy_commit() {
    asm!("cp.async.commit_group;", options(nostack));
}

/// Waits until at most `left` (0 to 7) of this thread's groups of copies are unfinished.
///
/// # Safety
/// None: the number of groups is an immediate of the instruction, hence the branches.
#[inline(always)]
pub(crate) unsafe fn copy_wait(left: u32) {
    match left {
        0 => asm!("cp.async.wait_group 0;", options(nostack)),
        1 => asm!("cp.async.wait_group 1;", options(nostack)),
        2 => asm!("cp.async.wait_group 2;", options(nostack)),
        3 => asm!("cp.async.wait_group 3;", options(nostack)),
        4 => asm!("cp.async.wait_group 4;", options(nostack)),
        5 => asm!("cp.async.wait_group 5;", options(nostack)),
        6 => asm!("cp.async.wait_group 6;", options(nostack)),
        _ => asm!("cp.async.wait_group 7;", options(nostack)),
    }
}

/// Whether one lane copies for its warp, with [`bulk_copy`].
#[inline(always)]
pub(crate) fn bulk_copies() -> bool {
    cfg!(feature = "sm_90")
}

/// Makes a barrier of copies: it opens when all bytes that were announced are there.
///
/// # Safety
/// `at` is aligned to 8 bytes and nobody uses it yet.
#[inline(always)]
pub(crate) unsafe fn bulk_barrier(at: u32) {
    #[cfg(feature = "sm_90")]
    asm!(
        "mbarrier.init.shared::cta.b64 [{}], 1;",
        "fence.mbarrier_init.release.cluster;",
        in(reg32) at,
        options(nostack)
    );
    #[cfg(not(feature = "sm_90"))]
    let _ = at;
}

/// Announces the bytes of all copies until a barrier opens.
///
/// # Safety
/// One lane gets here, once for each time that the barrier opens.
#[inline(always)]
pub(crate) unsafe fn bulk_announce(barrier: u32, bytes: u32) {
    #[cfg(feature = "sm_90")]
    asm!(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{}], {};",
        in(reg32) barrier,
        in(reg32) bytes,
        options(nostack)
    );
    #[cfg(not(feature = "sm_90"))]
    let _ = (barrier, bytes);
}

/// The cache policy that `createpolicy.fractional.L2::evict_first` makes: weights are read once in a step, and what the
/// kernels leave for each other, and their code, must not go for them.
#[cfg(feature = "sm_90")]
const EVICT_FIRST: u64 = 0x12f0_0000_0000_0000;

/// Starts to copy `bytes` bytes, a multiple of 16, from global to shared memory; they have been announced to the barrier.
///
/// # Safety
/// Both addresses are aligned to 16 bytes and valid; nobody uses the bytes at `to` before the barrier has opened. One
/// lane gets here.
#[inline(always)]
pub(crate) unsafe fn bulk_copy(to: u32, from: u64, bytes: u32, barrier: u32) {
    #[cfg(feature = "sm_90")]
    asm!(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [{to}], [{from}], {bytes}, [{barrier}], {hint};",
        to = in(reg32) to,
        from = in(reg64) from,
        bytes = in(reg32) bytes,
        barrier = in(reg32) barrier,
        hint = in(reg64) EVICT_FIRST,
        options(nostack)
    );
    #[cfg(not(feature = "sm_90"))]
    let _ = (to, from, bytes, barrier);
}

/// Waits until a barrier has opened; `odd` for the second time, the fourth, and so on.
///
/// # Safety
/// Every lane of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn bulk_wait(barrier: u32, odd: u32) {
    #[cfg(feature = "sm_90")]
    loop {
        let open: u32;
        asm!(
            "{{ .reg .pred p;",
            "mbarrier.try_wait.parity.shared::cta.b64 p, [{1}], {2};",
            "selp.u32 {0}, 1, 0, p; }}",
            out(reg32) open, in(reg32) barrier, in(reg32) odd,
            options(nostack)
        );
        if open != 0 {
            break;
        }
    }
    #[cfg(not(feature = "sm_90"))]
    let _ = (barrier, odd);
}

/// A word of global memory.
///
/// # Safety
/// `at` is aligned and valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_global_u32(at: u64) -> u32 {
    let out: u32;
    asm!("ld.global.b32 {}, [{}];", out(reg32) out, in(reg64) at, options(pure, readonly, nostack));
    out
}

/// Brings the bytes around an address into the second-level cache.
///
/// # Safety
/// `at` is valid for reads.
#[inline(always)]
pub(crate) unsafe fn prefetch(at: u64) {
    asm!("prefetch.global.L2 [{}];", in(reg64) at, options(nostack));
}

/// A float of global memory.
///
/// # Safety
/// `at` is aligned and valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_global_f32(at: u64) -> f32 {
    f32::from_bits(ld_global_u32(at))
}

/// Four neighbouring floats of global memory.
///
/// # Safety
/// `at` is aligned to 16 bytes and valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_global_f32x4(at: u64) -> [f32; 4] {
    let (a, b, c, d): (f32, f32, f32, f32);
    asm!("ld.global.v4.f32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) at, options(pure, readonly, nostack));
    [a, b, c, d]
}

/// Writes a word to global memory.
///
/// # Safety
/// `at` is aligned and valid for writes.
#[inline(always)]
pub(crate) unsafe fn st_global_u32(at: u64, value: u32) {
    asm!("st.global.b32 [{}], {};", in(reg64) at, in(reg32) value, options(nostack));
}

/// Writes the low half of a word to global memory.
///
/// # Safety
/// `at` is aligned and valid for writes.
#[inline(always)]
pub(crate) unsafe fn st_global_u16(at: u64, value: u32) {
    asm!("st.global.b16 [{}], {};", in(reg64) at, in(reg16) value as u16, options(nostack));
}

/// Writes two words to global memory.
///
/// # Safety
/// `at` is aligned to 8 bytes and valid for writes.
#[inline(always)]
pub(crate) unsafe fn st_global_u32x2(at: u64, v: [u32; 2]) {
    asm!("st.global.v2.b32 [{}], {{{}, {}}};", in(reg64) at, in(reg32) v[0], in(reg32) v[1], options(nostack));
}

/// Writes a float to global memory.
///
/// # Safety
/// `at` is aligned and valid for writes.
#[inline(always)]
pub(crate) unsafe fn st_global_f32(at: u64, value: f32) {
    st_global_u32(at, value.to_bits());
}

/// Writes four neighbouring floats to global memory.
///
/// # Safety
/// `at` is aligned to 16 bytes and valid for writes.
#[inline(always)]
pub(crate) unsafe fn st_global_f32x4(at: u64, v: [f32; 4]) {
    asm!("st.global.v4.f32 [{}], {{{}, {}, {}, {}}};", in(reg64) at, in(reg32) v[0], in(reg32) v[1], in(reg32) v[2], in(reg32) v[3], options(nostack));
}

/// A word that other blocks may write meanwhile.
///
/// # Safety
/// `at` is aligned and valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_relaxed_u32(at: u64) -> u32 {
    let out: u32;
    asm!("ld.relaxed.gpu.global.b32 {}, [{}];", out(reg32) out, in(reg64) at, options(nostack));
    out
}

/// Four words that other blocks may write meanwhile, each of them whole.
///
/// # Safety
/// `at` is aligned to 16 bytes and valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_relaxed_u32x4(at: u64) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    asm!("ld.relaxed.gpu.global.v4.b32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) at, options(nostack));
    [a, b, c, d]
}

/// Writes a word that other blocks may read meanwhile.
///
/// # Safety
/// `at` is aligned and valid for writes.
#[inline(always)]
pub(crate) unsafe fn st_relaxed_u32(at: u64, value: u32) {
    asm!("st.relaxed.gpu.global.b32 [{}], {};", in(reg64) at, in(reg32) value, options(nostack));
}

/// Writes four words to global memory.
///
/// # Safety
/// `at` is aligned to 16 bytes and valid for writes.
#[inline(always)]
pub(crate) unsafe fn st_global_u32x4(at: u64, v: [u32; 4]) {
    asm!("st.global.v4.b32 [{}], {{{}, {}, {}, {}}};", in(reg64) at, in(reg32) v[0], in(reg32) v[1], in(reg32) v[2], in(reg32) v[3], options(nostack));
}

/// Adds to a word of shared memory and returns what it was.
///
/// # Safety
/// `at` is aligned and inside the block's shared memory.
#[inline(always)]
pub(crate) unsafe fn add_shared_u32(at: u32, value: u32) -> u32 {
    let out: u32;
    asm!("atom.shared.add.u32 {}, [{}], {};", out(reg32) out, in(reg32) at, in(reg32) value, options(nostack));
    out
}

/// A byte of global memory.
///
/// # Safety
/// `at` is valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_global_u8(at: u64) -> u32 {
    let out: u32;
    asm!("ld.global.u8 {}, [{}];", out(reg32) out, in(reg64) at, options(pure, readonly, nostack));
    out
}

/// Two bytes of global memory.
///
/// # Safety
/// `at` is aligned to 2 and valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_global_u16(at: u64) -> u32 {
    let out: u16;
    asm!("ld.global.u16 {}, [{}];", out(reg16) out, in(reg64) at, options(pure, readonly, nostack));
    u32::from(out)
}

/// Starts to copy 4 bytes from global to shared memory.
///
/// # Safety
/// As [`copy_async16`], aligned to 4 bytes.
#[inline(always)]
pub(crate) unsafe fn copy_async4(to: u32, from: u64) {
    asm!("cp.async.ca.shared.global [{}], [{}], 4;", in(reg32) to, in(reg64) from, options(nostack));
}
