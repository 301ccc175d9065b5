//! GPU kernels of bloomery: compiled to PTX by `cargo xtask ptx`, one file per op family (a feature each).
//!
//! A kernel is a generic function over the primitives of [`simt`], so that it also runs on the host, in tests without a
//! card; the entry points at the end of each family's file fix the generics. Every kernel runs under the contract of
//! its launcher in `bloomery-kernels/src/cuda`, which checks shapes, alignments and lengths before it launches.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch, core_intrinsics)]
#![expect(internal_features, reason = "fused multiply-add and square root are intrinsics without std")]
#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "the whole of a kernel runs under the one contract of its launcher"
)]
#![expect(dead_code, reason = "a build holds one op family and needs part of what the families share")]

#[path = "../../src/abi/mod.rs"]
mod abi;
#[cfg(feature = "heads")]
mod absorb;
mod activations;
#[cfg(any(feature = "attention", feature = "chosen", feature = "prefill", feature = "windowed"))]
mod attention;
#[cfg(feature = "chosen")]
#[path = "attention/entries_chosen.rs"]
mod attention_chosen;
#[cfg(feature = "windowed")]
#[path = "attention/entries_ends.rs"]
mod attention_ends;
#[cfg(feature = "attention")]
#[path = "attention/entries_few.rs"]
mod attention_few;
#[cfg(feature = "prefill")]
#[path = "attention/entries_many.rs"]
mod attention_many;
#[cfg(feature = "windowed")]
mod blend;
#[path = "../../../bloomery-gguf/src/blocks/mod.rs"]
#[expect(unused_imports, reason = "the formats' names are public there")]
mod blocks;
#[cfg(feature = "sample")]
mod candidates;
#[cfg(feature = "products")]
mod class;
#[cfg(any(feature = "delta", feature = "delta_channels"))]
mod delta;
#[cfg(feature = "products")]
mod dots;
#[cfg(feature = "draft")]
mod draft;
#[cfg(feature = "embed")]
mod embed;
#[cfg(feature = "products")]
mod experts;
#[cfg(any(feature = "few", feature = "project_both"))]
mod few;
#[cfg(feature = "few")]
mod few_entries;
mod fold;
#[cfg(feature = "rope")]
mod gate;
#[cfg(any(feature = "products", feature = "few"))]
mod groups;
#[cfg(feature = "heads")]
mod heads;
#[cfg(feature = "index")]
mod index;
#[cfg(any(feature = "rope", feature = "heads"))]
mod latent;
#[cfg(feature = "many")]
mod many;
#[cfg(feature = "many_float")]
mod many_float;
mod math;
#[cfg(feature = "ngrams")]
mod ngrams;
#[cfg(feature = "norm")]
mod norm;
#[cfg(feature = "pack")]
mod pack;
#[cfg(feature = "products")]
mod project;
#[cfg(feature = "project_both")]
mod project_both;
#[cfg(feature = "products")]
mod ring;
#[cfg(any(
    feature = "rope",
    feature = "heads",
    feature = "index",
    feature = "summaries",
    feature = "windowed"
))]
mod rope;
#[cfg(feature = "rope")]
mod rope_entries;
#[cfg(feature = "tiles")]
mod rounded;
mod rounding;
#[cfg(any(feature = "route", feature = "route_raw"))]
mod route;
#[cfg(feature = "seats")]
mod seats;
#[cfg(feature = "windowed")]
mod shared;
mod simt;
#[cfg(any(feature = "products", feature = "tiles"))]
mod stages;
#[cfg(feature = "streams")]
mod streams;
#[cfg(feature = "summaries")]
mod summaries;
#[cfg(feature = "sample")]
mod take;
#[cfg(feature = "tiles")]
mod tiles;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
