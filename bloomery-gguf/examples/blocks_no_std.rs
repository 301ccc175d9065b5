//! The block formats without `std`, as GPU kernels include them: that this compiles is the point.
//!
//! Every function here calls a part of the formats with values the compiler does not know. A test compiles this file
//! to assembly and fails if a panic is left in it.
#![no_std]

#[path = "../src/blocks/mod.rs"]
pub mod blocks;

use blocks::{Block, ScaleMins, SuperBlock};

fn values<B: Block>(bytes: &[u8], group: usize, run: usize) -> Option<([i32; 8], f32, f32)> {
    let block = B::read(bytes)?;
    Some((blocks::pack(block.quants(group)), block.factor(run), block.offset(run)))
}

fn integers<B: SuperBlock>(bytes: &[u8], _group: usize, run: usize) -> Option<(f32, f32, i32, i32)> {
    let block = B::read(bytes)?;
    Some((block.d(), block.dmin(), block.scale(run), block.min(run)))
}

/// A function that the compiler must emit for each format.
macro_rules! probes {
    ($function:ident -> $result:ty: $($name:ident $block:ident,)*) => {
        $(
            /// Reads one block at indices of the caller's choice.
            #[inline(never)]
            pub fn $name(bytes: &[u8], group: usize, run: usize) -> Option<$result> {
                $function::<blocks::$block>(bytes, group, run)
            }
        )*
    };
}

probes! { values -> ([i32; 8], f32, f32):
    q4_0 BlockQ4_0, q4_1 BlockQ4_1, q5_0 BlockQ5_0, q5_1 BlockQ5_1, q8_0 BlockQ8_0,
    iq4_nl BlockIQ4NL, mxfp4 BlockMXFP4, nvfp4 BlockNVFP4,
    q2_k BlockQ2K, q3_k BlockQ3K, q4_k BlockQ4K, q5_k BlockQ5K, q6_k BlockQ6K, iq4_xs BlockIQ4XS,
    iq2_xxs BlockIQ2XXS, iq2_xs BlockIQ2XS, iq2_s BlockIQ2S, iq3_xxs BlockIQ3XXS, iq3_s BlockIQ3S,
    iq1_s BlockIQ1S, iq1_m BlockIQ1M,
}

probes! { integers -> (f32, f32, i32, i32):
    q2_k_integers BlockQ2K, q3_k_integers BlockQ3K, q4_k_integers BlockQ4K, q5_k_integers BlockQ5K,
    q6_k_integers BlockQ6K, iq4_xs_integers BlockIQ4XS, iq2_xxs_integers BlockIQ2XXS, iq2_xs_integers BlockIQ2XS,
    iq2_s_integers BlockIQ2S, iq3_xxs_integers BlockIQ3XXS, iq3_s_integers BlockIQ3S, iq1_s_integers BlockIQ1S,
    iq1_m_integers BlockIQ1M,
}

/// Sixteen-bit floats both ways.
#[inline(never)]
pub fn halves(value: f32, bits: u16) -> (u16, u16, f32, f32) {
    (
        blocks::f32_to_f16(value),
        blocks::f32_to_bf16(value),
        blocks::f16_to_f32(bits),
        blocks::bf16_to_f32(bits),
    )
}

/// The packing of scales and minimums both ways.
#[inline(never)]
pub fn scale_mins(scales: &[u8; 8], mins: &[u8; 8], sub: usize) -> (u8, u8) {
    ScaleMins::pack(scales, mins).get(sub)
}
