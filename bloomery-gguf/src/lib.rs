//! GGUF model files: metadata, tensors over a memory mapping, a writer, and the block formats.
#![deny(unsafe_code)]

pub mod blocks;
mod format;

pub use format::Format;
