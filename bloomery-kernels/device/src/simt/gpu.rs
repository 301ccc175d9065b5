//! The instructions.

use core::arch::{asm, global_asm};

#[path = "gpu_memory.rs"]
mod memory;
pub(crate) use memory::*;
#[cfg(feature = "seats")]
#[path = "gpu_system.rs"]
mod system;
#[cfg(feature = "seats")]
pub(crate) use system::*;
#[cfg(feature = "wide")]
#[path = "gpu_tensor.rs"]
mod tensor;
#[cfg(feature = "wide")]
pub(crate) use tensor::*;

// Dynamic shared memory; its size comes with the launch.
global_asm!(".extern .shared .align 16 .b8 shared_memory[];");

/// Blocks of up to `$threads` threads, `$blocks` of them on a multiprocessor: what bounds a kernel's registers.
macro_rules! bounds {
    ($kernel:ident, $threads:literal, $blocks:literal) => {
        core::arch::global_asm!(concat!("// bounds ", stringify!($kernel), " ", $threads, " ", $blocks));
    };
}

pub(crate) use bounds;

macro_rules! special {
    ($(#[$doc:meta])* $name:ident: $register:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name() -> u32 {
            let value: u32;
            // SAFETY: reads a special register that never changes during a kernel.
            unsafe { asm!(concat!("mov.u32 {}, ", $register, ";"), out(reg32) value, options(pure, nomem, nostack)) };
            value
        }
    };
}

special! {
    /// Number of this thread in its block.
    thread: "%tid.x"
}
special! {
    /// Threads of a block.
    threads: "%ntid.x"
}
special! {
    /// Number of this block.
    block: "%ctaid.x"
}
special! {
    /// Blocks of the grid.
    blocks: "%nctaid.x"
}
special! {
    /// Offset of the first byte of dynamic shared memory.
    shared_base: "shared_memory"
}

/// Waits for all threads of the block; what they wrote to memory before is seen after.
///
/// # Safety
/// Every thread of the block gets here.
#[inline(always)]
pub(crate) unsafe fn barrier() {
    asm!("bar.sync 0;", options(nostack));
}

/// Waits for all threads of the warp; what they wrote to memory before is seen after.
///
/// # Safety
/// Every thread of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn warp_barrier() {
    asm!("bar.warp.sync 0xffffffff;", options(nostack));
}

/// Waits until the kernels before this one have finished and their writes are seen.
///
/// # Safety
/// Every thread of the block gets here.
#[inline(always)]
pub(crate) unsafe fn await_predecessors() {
    #[cfg(feature = "sm_90")]
    asm!("griddepcontrol.wait;", options(nostack));
}

/// Allows the next kernel to start while this one runs. Call it after [`await_predecessors`]: then whatever a kernel
/// does before its own wait comes after everything that ran before its predecessor.
///
/// # Safety
/// None but the order above.
#[inline(always)]
pub(crate) unsafe fn release_successor() {
    #[cfg(feature = "sm_90")]
    asm!("griddepcontrol.launch_dependents;", options(nostack));
}

/// The value, of which the compiler knows nothing more.
#[inline(always)]
pub(crate) fn unknown(value: u32) -> u32 {
    let out: u32;
    // SAFETY: a copy from register to register.
    unsafe { asm!("mov.b32 {}, {};", out(reg32) out, in(reg32) value, options(nostack)) };
    out
}

/// The value of the thread whose number differs by `mask`.
///
/// # Safety
/// Every thread of the warp gets here with the same mask.
#[inline(always)]
pub(crate) unsafe fn shfl_xor(value: u32, mask: u32) -> u32 {
    let out: u32;
    asm!("shfl.sync.bfly.b32 {}, {}, {}, 0x1f, 0xffffffff;", out(reg32) out, in(reg32) value, in(reg32) mask, options(nostack));
    out
}

/// The value of thread `from` of the warp.
///
/// # Safety
/// Every thread of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn shfl(value: u32, from: u32) -> u32 {
    let out: u32;
    asm!("shfl.sync.idx.b32 {}, {}, {}, 0x1f, 0xffffffff;", out(reg32) out, in(reg32) value, in(reg32) from, options(nostack));
    out
}

/// The largest value of the warp.
///
/// # Safety
/// Every thread of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn warp_max(value: u32) -> u32 {
    let out: u32;
    asm!("redux.sync.max.u32 {}, {}, 0xffffffff;", out(reg32) out, in(reg32) value, options(nostack));
    out
}

/// One bit for every thread of the warp.
///
/// # Safety
/// Every thread of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn ballot(value: bool) -> u32 {
    let (out, flag): (u32, u32);
    flag = value as u32;
    asm!("{{ .reg .pred p; setp.ne.u32 p, {1}, 0; vote.sync.ballot.b32 {0}, p, 0xffffffff; }}", out(reg32) out, in(reg32) flag, options(nostack));
    out
}

macro_rules! dot {
    ($(#[$doc:meta])* $name:ident: $instruction:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(a: u32, b: u32, c: i32) -> i32 {
            let out: i32;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(concat!($instruction, " {}, {}, {}, {};"), out(reg32) out, in(reg32) a, in(reg32) b, in(reg32) c, options(pure, nomem, nostack));
            }
            out
        }
    };
}

dot! {
    /// `c` and the products of four signed bytes each.
    dp4a: "dp4a.s32.s32"
}
dot! {
    /// `c` and the products of the unsigned bytes of `a` and the signed ones of `b`.
    dp4a_us: "dp4a.u32.s32"
}
dot! {
    /// `c` and the products of the two signed halves of `a` and the two low unsigned bytes of `b`.
    dp2a_low: "dp2a.lo.s32.u32"
}
dot! {
    /// `c` and the products of the two signed halves of `a` and the two high unsigned bytes of `b`.
    dp2a_high: "dp2a.hi.s32.u32"
}

/// Four of the eight bytes `a` (0..4), `b` (4..8), named by the low three bits of the nibbles of `choice`.
#[inline(always)]
pub(crate) fn permute(a: u32, b: u32, choice: u32) -> u32 {
    let out: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("prmt.b32 {}, {}, {}, {};", out(reg32) out, in(reg32) a, in(reg32) b, in(reg32) choice, options(pure, nomem, nostack));
    }
    out
}

/// The low word of `(high:low) >> shift`, `shift < 32`.
#[inline(always)]
pub(crate) fn funnel(low: u32, high: u32, shift: u32) -> u32 {
    let out: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("shf.r.wrap.b32 {}, {}, {}, {};", out(reg32) out, in(reg32) low, in(reg32) high, in(reg32) shift, options(pure, nomem, nostack));
    }
    out
}

/// `a * b + c`, rounded once.
#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    core::intrinsics::fmaf32(a, b, c)
}

/// The square root, correctly rounded.
#[inline(always)]
pub(crate) fn sqrt(x: f32) -> f32 {
    core::intrinsics::sqrtf32(x)
}

/// The nearest integer, ties to even.
#[inline(always)]
pub(crate) fn round(x: f32) -> i32 {
    let out: i32;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.rni.s32.f32 {}, {};", out(reg32) out, in(reg32) x, options(pure, nomem, nostack)) };
    out
}

/// The value of a half-precision number.
#[inline(always)]
pub(crate) fn half(bits: u16) -> f32 {
    let out: f32;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.f32.f16 {}, {};", out(reg32) out, in(reg16) bits, options(pure, nomem, nostack)) };
    out
}

/// The sum of the warp's values, modulo 2^32.
///
/// # Safety
/// Every thread of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn warp_add(value: u32) -> u32 {
    let out: u32;
    asm!("redux.sync.add.u32 {}, {}, 0xffffffff;", out(reg32) out, in(reg32) value, options(nostack));
    out
}

/// One bit for every thread of the warp that has the same value as this one.
///
/// # Safety
/// Every thread of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn warp_match(value: u32) -> u32 {
    let out: u32;
    asm!("match.any.sync.b32 {}, {}, 0xffffffff;", out(reg32) out, in(reg32) value, options(nostack));
    out
}

/// `a - b` of two half-precision numbers each.
#[inline(always)]
pub(crate) fn sub_halves(a: u32, b: u32) -> u32 {
    let out: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("sub.rn.f16x2 {}, {}, {};", out(reg32) out, in(reg32) a, in(reg32) b, options(pure, nomem, nostack))
    };
    out
}

/// The half-precision number nearest to `x`.
#[inline(always)]
pub(crate) fn to_half(x: f32) -> u16 {
    let out: u16;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.rn.f16.f32 {}, {};", out(reg16) out, in(reg32) x, options(pure, nomem, nostack)) };
    out
}

/// Byte `i` of a word with its sign; `i` is a constant.
#[inline(always)]
pub(crate) fn signed_byte(word: u32, i: u32) -> i32 {
    let out: i32;
    // A choice with 8 added repeats the byte's sign.
    let choice = i | (8 | i) * 0x1110;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("prmt.b32 {}, {}, 0, {};", out(reg32) out, in(reg32) word, in(reg32) choice, options(pure, nomem, nostack))
    };
    out
}
