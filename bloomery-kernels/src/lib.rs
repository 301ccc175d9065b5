//! CPU and CUDA kernels of bloomery: quantised matrix products, attention, routing, normalisation.
//!
//! This is the one crate of the workspace that may use `unsafe`; every block names the fact that makes it sound.

#[cfg(feature = "cuda")]
#[cfg_attr(not(test), expect(dead_code, reason = "the kernels use it all"))]
#[expect(unreachable_pub, reason = "the kernels see it from another package")]
mod abi;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;

/// The README, so that its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
