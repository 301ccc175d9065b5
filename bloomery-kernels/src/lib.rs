//! CPU and CUDA kernels of bloomery: quantised matrix products, attention, routing, normalisation.
//!
//! This is the one crate of the workspace that may use `unsafe`; every block names the fact that makes it sound.

pub mod cpu;
