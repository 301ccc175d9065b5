//! What attention adds: wide and far loads, atomics, half precision, tensor cores.

use core::arch::asm;

/// Entry points that take [`AttendArgs`](super::super::abi::attention::AttendArgs): name, threads and blocks as in [`bounds`],
/// the kernel, and its documentation.
#[cfg(any(feature = "attention", feature = "chosen", feature = "prefill", feature = "windowed"))]
macro_rules! entries {
    ($($name:ident: $threads:literal, $blocks:literal, $kernel:expr, $doc:literal;)*) => {
        $(
            crate::simt::bounds!($name, $threads, $blocks);

            #[doc = $doc]
            #[unsafe(no_mangle)]
            pub unsafe extern "ptx-kernel" fn $name(args: AttendArgs) {
                $kernel(args);
            }
        )*
    };
}

#[cfg(any(feature = "attention", feature = "chosen", feature = "prefill", feature = "windowed"))]
pub(crate) use entries;

/// Two words of global memory.
///
/// # Safety
/// `at` is aligned to 8 bytes and valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_global_u32x2(at: u64) -> [u32; 2] {
    let (a, b): (u32, u32);
    asm!("ld.global.v2.b32 {{{}, {}}}, [{}];", out(reg32) a, out(reg32) b, in(reg64) at, options(pure, readonly, nostack));
    [a, b]
}

/// Four words of global memory.
///
/// # Safety
/// `at` is aligned to 16 bytes and valid for reads.
#[inline(always)]
pub(crate) unsafe fn ld_global_u32x4(at: u64) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    asm!("ld.global.v4.b32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) at, options(pure, readonly, nostack));
    [a, b, c, d]
}

/// [`ld_global_u32x2`] of what other blocks of the same launch have written: not from the first-level cache.
///
/// # Safety
/// As [`ld_global_u32x2`]; a [`fence`] after the sign that the words are there.
#[inline(always)]
pub(crate) unsafe fn ld_far_u32x2(at: u64) -> [u32; 2] {
    let (a, b): (u32, u32);
    asm!("ld.global.cg.v2.b32 {{{}, {}}}, [{}];", out(reg32) a, out(reg32) b, in(reg64) at, options(pure, readonly, nostack));
    [a, b]
}

/// [`ld_global_f32x4`] of what other blocks of the same launch have written: not from the first-level cache.
///
/// # Safety
/// As [`ld_global_f32x4`]; a [`fence`] after the sign that the words are there.
#[inline(always)]
pub(crate) unsafe fn ld_far_f32x4(at: u64) -> [f32; 4] {
    let (a, b, c, d): (f32, f32, f32, f32);
    asm!("ld.global.cg.v4.f32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) at, options(pure, readonly, nostack));
    [a, b, c, d]
}

/// Writes the low byte of a word to global memory.
///
/// # Safety
/// `at` is valid for writes.
#[inline(always)]
pub(crate) unsafe fn st_global_u8(at: u64, value: u32) {
    // In a register of 16 bits: of a float's bits in one of 32, drivers have stored the float, cut off at 255.
    asm!("st.global.u8 [{}], {};", in(reg64) at, in(reg16) value as u16, options(nostack));
}

/// Adds to a word of global memory that other blocks add to as well; returns what it was.
///
/// # Safety
/// `at` is aligned and valid for writes.
#[inline(always)]
pub(crate) unsafe fn atomic_add(at: u64, value: u32) -> u32 {
    let out: u32;
    asm!("atom.global.add.u32 {}, [{}], {};", out(reg32) out, in(reg64) at, in(reg32) value, options(nostack));
    out
}

/// Orders this thread's accesses to global memory before it and those after it, for all blocks.
///
/// # Safety
/// None.
#[inline(always)]
pub(crate) unsafe fn fence() {
    asm!("membar.gl;", options(nostack));
}

/// Two values rounded to half precision, the first one in the low half.
#[inline(always)]
pub(crate) fn half2(low: f32, high: f32) -> u32 {
    let out: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.rn.f16x2.f32 {}, {}, {};", out(reg32) out, in(reg32) high, in(reg32) low, options(pure, nomem, nostack))
    };
    out
}

/// Two values rounded to bfloat16, the first one in the low half.
#[inline(always)]
pub(crate) fn bfloat2(low: f32, high: f32) -> u32 {
    let out: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.rn.bf16x2.f32 {}, {}, {};", out(reg32) out, in(reg32) high, in(reg32) low, options(pure, nomem, nostack))
    };
    out
}

/// The differences of two pairs of half-precision numbers.
#[inline(always)]
pub(crate) fn half2_sub(a: u32, b: u32) -> u32 {
    let out: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("sub.rn.f16x2 {}, {}, {};", out(reg32) out, in(reg32) a, in(reg32) b, options(pure, nomem, nostack))
    };
    out
}

/// `c + a[0] b[0] + a[1] b[1] + ...` of a warp: 16 x 8 sums of `N` products of 16 x 16 and 16 x 8 half-precision numbers.
/// With `g = lane / 4`, `t = lane % 4`: `a` holds rows `g`, `g + 8` at columns `2t, 2t + 1`, then both at `2t + 8, 2t + 9`;
/// `b` holds column `g` at rows `2t, 2t + 1`, then `2t + 8, 2t + 9`; `c` holds row `g` at columns `2t, 2t + 1`, then
/// row `g + 8`.
///
/// The sums of 16 products are exact but for what lies below the last bit of the largest term, which is cut off.
///
/// # Safety
/// Every thread of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn mma<const N: usize>(mut c: [f32; 4], a: [[u32; 4]; N], b: [[u32; 2]; N]) -> [f32; 4] {
    let mut i = 0;
    while i < N {
        // Volatile, or it could move into branches that not all lanes take.
        asm!(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};",
            inout(reg32) c[0], inout(reg32) c[1], inout(reg32) c[2], inout(reg32) c[3],
            in(reg32) a[i][0], in(reg32) a[i][1], in(reg32) a[i][2], in(reg32) a[i][3],
            in(reg32) b[i][0], in(reg32) b[i][1],
            options(nomem, nostack)
        );
        i += 1;
    }
    c
}

macro_rules! mma {
    ($(#[$doc:meta])* $name:ident: $instruction:literal) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Every thread of the warp gets here.
        #[inline(always)]
        pub(crate) unsafe fn $name(mut c: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
            asm!(
                concat!($instruction, " {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};"),
                inout(reg32) c[0], inout(reg32) c[1], inout(reg32) c[2], inout(reg32) c[3],
                in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
                in(reg32) b[0], in(reg32) b[1],
                options(nomem, nostack)
            );
            c
        }
    };
}

mma! {
    /// As [`mma`] once, of bfloat16 numbers.
    mma_bf16: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
}
mma! {
    /// `c + a b` of 16 x 8 and 8 x 8 floats, of which the low 13 bits do not count: `a` holds rows `g`, `g + 8` at column `t`, then both
    /// at `t + 4`; `b` holds column `g` at rows `t`, then `t + 4`; `c` as with [`mma`].
    mma_tf32: "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
}

/// `a b`: 16 rows of 32 signed bytes by 32 columns of 8, as the tensor cores spread them over a warp: of lane `4 g + t`
/// rows g and g + 8 are `a[0], a[2]` and `a[1], a[3]`, bytes 4 t .. and 16 + 4 t ..; column g is `b[0], b[1]` with the
/// same bytes; the result is rows g (first two) and g + 8, columns 2 t and 2 t + 1.
///
/// # Safety
/// Every lane of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn mma_s8_32(a: [u32; 4], b: [u32; 2]) -> [i32; 4] {
    let (c0, c1, c2, c3): (i32, i32, i32, i32);
    asm!(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {{{}, {}, {}, {}}}, {{{}, {}, {}, {}}}, {{{}, {}}}, {{{z}, {z}, {z}, {z}}};",
        out(reg32) c0, out(reg32) c1, out(reg32) c2, out(reg32) c3,
        in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
        in(reg32) b[0], in(reg32) b[1], z = in(reg32) 0,
        options(nomem, nostack)
    );
    [c0, c1, c2, c3]
}

/// As [`mma_s8_32`] with 16 bytes: rows g and g + 8 are `a[0]` and `a[1]`, bytes 4 t .. .
///
/// # Safety
/// Every lane of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn mma_s8_16(a: [u32; 2], b: u32) -> [i32; 4] {
    let (c0, c1, c2, c3): (i32, i32, i32, i32);
    asm!(
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {{{}, {}, {}, {}}}, {{{}, {}}}, {{{}}}, {{{z}, {z}, {z}, {z}}};",
        out(reg32) c0, out(reg32) c1, out(reg32) c2, out(reg32) c3,
        in(reg32) a[0], in(reg32) a[1], in(reg32) b, z = in(reg32) 0,
        options(nomem, nostack)
    );
    [c0, c1, c2, c3]
}

/// `a b` of 16 rows of 16 half-precision values by 8 columns: rows g and g + 8 are `a[0], a[2]` and `a[1], a[3]`, values
/// 2 t .. and 8 + 2 t ..; column g is `b[0], b[1]`. Exact for integers whose sums stay below 2^24.
///
/// # Safety
/// Every lane of the warp gets here.
#[inline(always)]
pub(crate) unsafe fn mma_f16_exact(a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
    let (c0, c1, c2, c3): (f32, f32, f32, f32);
    asm!(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{}, {}, {}, {}}}, {{{}, {}, {}, {}}}, {{{}, {}}}, {{{z}, {z}, {z}, {z}}};",
        out(reg32) c0, out(reg32) c1, out(reg32) c2, out(reg32) c3,
        in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
        in(reg32) b[0], in(reg32) b[1], z = in(reg32) 0.0_f32,
        options(nomem, nostack)
    );
    [c0, c1, c2, c3]
}
