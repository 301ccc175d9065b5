//! Sixteen f32 lanes on every instruction set.
//!
//! A float kernel is written once, generic over [`Lanes`], and [`dispatch`] compiles it per instruction set. Every
//! operation here rounds each lane as IEEE 754 says (fused where it says `fma`), and the horizontal sum has one
//! fixed tree, so all instruction sets give the same bits; [`scalar::Scalar`] is the definition.
//!
//! Kernel bodies must be `#[inline(always)]` down to the last helper, closures included: code that is not inlined
//! into the function with the target features gets compiled without them, which is slow (never wrong).

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use super::Isa;

pub(super) use scalar::Scalar;

/// Lanes in a vector.
pub(super) const LANES: usize = 16;

/// A vector of sixteen f32 lanes.
///
/// Constructors are unsafe: *the machine must have the instruction set of the type*. A value is the witness of that,
/// so the other operations are safe. Loads and stores take unaligned pointers and also need *the whole vector in
/// bounds of one allocation*.
pub(super) trait Lanes: Copy {
    /// Query rows of a register tile: 8 where the machine has 32 registers of 16 lanes, 4 where it has 8.
    const TILE: usize;
    /// Vectors side by side in a register tile.
    const WIDE: usize;

    /// All lanes `x`.
    unsafe fn splat(x: f32) -> Self;
    /// 16 values.
    unsafe fn load(from: *const f32) -> Self;
    /// 16 values of IEEE half precision.
    unsafe fn load_f16(from: *const u16) -> Self;
    /// 16 bytes as integers.
    unsafe fn load_i8(from: *const i8) -> Self;
    /// Writes 16 values.
    unsafe fn store(self, to: *mut f32);
    /// Writes 16 values rounded to IEEE half precision, ties to even.
    unsafe fn store_f16(self, to: *mut u16);

    /// `self + b`.
    fn add(self, b: Self) -> Self;
    /// `self - b`.
    fn sub(self, b: Self) -> Self;
    /// `self * b`.
    fn mul(self, b: Self) -> Self;
    /// `self / b`.
    fn div(self, b: Self) -> Self;
    /// `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// `if self > b { self } else { b }`.
    fn max(self, b: Self) -> Self;
    /// `if self < b { yes } else { no }`.
    fn if_less(self, b: Self, yes: Self, no: Self) -> Self;
    /// NaN where `x` is NaN, else self.
    fn nan_of(self, x: Self) -> Self;
    /// The bits of `self` plus the bits of `n` shifted left by 23: `self * 2^k`, `k` the integer in the low bits of
    /// `n`, while the result is normal.
    fn add_exponent(self, n: Self) -> Self;
    /// The sum: lanes `i` and `i + 8`, then `i + 4`, `i + 2`, `i + 1`.
    fn sum(self) -> f32;
    /// The [`sum`](Self::sum) of each.
    #[inline(always)]
    fn sums<const R: usize>(all: [[Self; R]; 2]) -> [[f32; R]; 2] {
        let mut sums = [[0.0; R]; 2];
        for (sums, all) in sums.iter_mut().zip(all) {
            for (sum, one) in sums.iter_mut().zip(all) {
                *sum = one.sum();
            }
        }
        sums
    }
    /// The largest lane (of lanes without NaN).
    fn largest(self) -> f32;
}

/// Asks for the cache line at `at` without waiting; any address will do.
#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, and every x86-64 machine has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// A kernel body, generic over the vector type.
pub(super) trait Kernel {
    /// What it returns.
    type Output;
    /// The body; mark it `#[inline(always)]`.
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    unsafe fn run<V: Lanes>(self) -> Self::Output;
}

/// Runs `kernel` on `isa`, which must be one of [`Isa::available`] (as `Cpu::new` sees to).
#[inline]
pub(super) fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    debug_assert!(isa <= Isa::detect());
    match isa {
        // SAFETY: plain Rust needs nothing.
        Isa::Scalar => unsafe { kernel.run::<Scalar>() },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa` is available, and Avx2 promises these features.
        Isa::Avx2 => unsafe { on_avx2(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa` is available, and Avx512 and better promise these features.
        Isa::Avx512 | Isa::Amx => unsafe { on_avx512(kernel) },
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: as above; this machine has no better tier.
        _ => unsafe { kernel.run::<Scalar>() },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn on_avx2<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function's own contract.
    unsafe { kernel.run::<avx2::Avx2>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
unsafe fn on_avx512<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function's own contract.
    unsafe { kernel.run::<avx512::Avx512>() }
}

#[cfg(test)]
mod tests;
