//! Instruction sets, ordered from the one every machine has to the fastest.

use std::sync::OnceLock;

/// An instruction set tier. `Ord` is speed: `Scalar < Avx2 < Avx512 < Amx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// Plain Rust; the definition of every kernel.
    Scalar,
    /// AVX2, FMA and F16C (Haswell and later).
    Avx2,
    /// AVX-512 F, BW, VL, DQ and VNNI (Ice Lake, Zen 4 and later).
    Avx512,
    /// AVX-512 as above plus AMX int8 tiles for products of many rows (Sapphire Rapids and later).
    Amx,
}

impl Isa {
    /// All tiers, slowest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Amx];

    /// The fastest tier of this machine. The first call asks the operating system for the AMX tile registers.
    #[must_use]
    pub fn detect() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(Self::probe)
    }

    fn probe() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vnni");
            if avx512 && amx_int8() {
                return Self::Amx;
            }
            if avx512 {
                return Self::Avx512;
            }
            if avx2 {
                return Self::Avx2;
            }
        }
        Self::Scalar
    }

    /// The tiers this machine can run, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        let best = Self::detect();
        Self::ALL.into_iter().filter(move |isa| *isa <= best)
    }
}

/// Whether the processor has int8 tiles and Linux lets this process use them.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn amx_int8() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
    const XTILEDATA: libc::c_ulong = 18;
    // Leaf 7, edx: bit 24 is AMX-TILE, bit 25 AMX-INT8.
    if __cpuid(0).eax < 7 || (__cpuid_count(7, 0).edx >> 24) & 3 != 3 {
        return false;
    }
    // SAFETY: the call takes two integers, touches no memory of ours and only grants a permission to this process.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0 }
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn amx_int8() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_a_chain() {
        let available: Vec<Isa> = Isa::available().collect();
        assert_eq!(available[..], Isa::ALL[..available.len()]);
        assert_eq!(available.last(), Some(&Isa::detect()));
    }
}
