//! Instruction sets, ordered from the one every machine has to the fastest.

/// An instruction set tier. `Ord` is speed: `Scalar < Avx2 < Avx512 < Amx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    /// The fastest tier of this machine.
    #[must_use]
    pub fn detect() -> Self {
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
