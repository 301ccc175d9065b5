//! Helpers of the tests: reproducible values, and every instruction set with several thread counts.

use std::num::NonZeroUsize;

use bloomery_gguf::Format;

use super::{Cpu, Isa, Numerics, Pool};

/// Reproducible pseudo-random values (splitmix64).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Roughly normal: the sum of four uniform values, scaled to variance 1.
    pub(crate) fn normal(&mut self) -> f32 {
        let sum: f64 = (0..4).map(|_| self.unit()).sum();
        ((sum - 2.0) * 3.0_f64.sqrt()) as f32
    }

    pub(crate) fn normals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.normal()).collect()
    }
}

/// Every available instruction set with 1 and 3 threads, the scalar definition with one thread first.
pub(crate) fn cpus() -> Vec<Cpu> {
    let pair = |isa| {
        [1, 3].map(|threads| Cpu::new(Pool::new(NonZeroUsize::new(threads).unwrap()), isa, Numerics::Fast))
    };
    Isa::available().flat_map(pair).collect()
}

/// Random blocks of `format` with small finite scales: `values` values.
pub(crate) fn weights(format: Format, values: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let blocks = values / format.block_len();
    if let Format::F32 | Format::F16 | Format::BF16 = format {
        let value = |x: f32| match format {
            Format::F32 => x.to_le_bytes().to_vec(),
            Format::F16 => half::f16::from_f32(x).to_le_bytes().to_vec(),
            _ => half::bf16::from_f32(x).to_le_bytes().to_vec(),
        };
        return (0..values).flat_map(|_| value(rng.normal())).collect();
    }
    let mut bytes: Vec<u8> = (0..blocks * format.block_bytes()).map(|_| rng.next() as u8).collect();
    let halves: &[usize] = match format {
        Format::Q4_K | Format::Q5_K | Format::Q4_1 | Format::Q5_1 => &[0, 2],
        Format::Q2_K => &[80, 82],
        Format::Q3_K => &[108],
        Format::Q6_K => &[208],
        Format::MXFP4 => &[],
        _ => &[0],
    };
    for block in bytes.chunks_mut(format.block_bytes()) {
        if format == Format::MXFP4 {
            // 2^-10 ..= 2^-3.
            block[0] = 118 + block[0] % 8;
        }
        for &at in halves {
            // 2^-9 ..= 2^-2, either sign.
            let bits = rng.next() as u16 & 0x83ff | (6 + rng.below(7) as u16) << 10;
            block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
        }
    }
    bytes
}

/// The bits of floats, for comparisons that must be exact.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
