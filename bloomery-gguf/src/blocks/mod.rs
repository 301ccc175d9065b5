//! Block formats: layout and scalar unpack. No `std`, no allocation, no panics, no dependencies.
//!
//! This folder is compiled twice: here for the host, and by path into `no_std` GPU kernels. Every block is a
//! `#[repr(C)]` structure of bytes (alignment 1, so it may overlay file bytes at any address), and every format
//! unpacks the same way: small signed integers, 32 at a time, and a factor and an offset for each run of 16 values,
//!
//! ```text
//! x[i] = factor(i / 16) * quants(i / 32)[i % 32] - offset(i / 16)
//! ```
//!
//! computed in that order in `f32` without fused multiply-add. The scalar code here is the definition; vector and
//! GPU code that gathers the bytes differently is tested against it.
//!
//! Indices (`group`, `run`, `sub`) are taken modulo the number of groups or runs of the block: no index panics.

mod block;
mod fp4;
mod grids;
mod half;
mod iq1;
mod iq2;
mod iq3;
mod iq4;
mod q2_k;
mod q3_k;
mod q4;
mod q4_k;
mod q5;
mod q5_k;
mod q6_k;
mod q8;

pub use block::{Block, SuperBlock, pack};
pub use fp4::{BlockMXFP4, BlockNVFP4, FP4_VALUES, e8m0_half, ue4m3_half};
pub use grids::{IQ1_GRID, IQ2_S_GRID, IQ2_XS_GRID, IQ2_XXS_GRID, IQ3_S_GRID, IQ3_XXS_GRID};
pub use half::{F16, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
pub use iq1::{BlockIQ1M, BlockIQ1S, iq1_values};
pub use iq2::{BlockIQ2S, BlockIQ2XS, BlockIQ2XXS, iq2_values};
pub use iq3::{BlockIQ3S, BlockIQ3XXS, iq3_s_values, iq3_xxs_values};
pub use iq4::{BlockIQ4NL, BlockIQ4XS, IQ4_VALUES};
pub use q2_k::BlockQ2K;
pub use q3_k::BlockQ3K;
pub use q4::{BlockQ4_0, BlockQ4_1};
pub use q4_k::{BlockQ4K, ScaleMins};
pub use q5::{BlockQ5_0, BlockQ5_1};
pub use q5_k::BlockQ5K;
pub use q6_k::BlockQ6K;
pub use q8::BlockQ8_0;
