//! GGUF model files: metadata, tensors over a memory mapping, a writer, and the block formats.
//!
//! Reads versions 2 and 3, little-endian, in one file or split over several. A file is data from a stranger:
//! every count, offset and string is checked before it is used, and what is wrong is named in a
//! [`GgufError`].
//!
//! ```
//! use bloomery_gguf::{Format, Gguf, GgufError, Writer};
//!
//! # fn main() -> Result<(), GgufError> {
//! let weights: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|w| w.to_le_bytes()).collect();
//! let mut writer = Writer::new();
//! writer
//!     .set("general.architecture", "tiny")
//!     .set("tiny.block_count", 2u32)
//!     .set("tiny.attention.head_count_kv", vec![4u32, 8])
//!     .tensor("output.weight", &[3, 2], Format::F32, weights.clone())?;
//! let mut file = Vec::new();
//! writer.write_to(&mut file)?;
//!
//! let gguf = Gguf::from_bytes(file)?; // or Gguf::open("model.gguf"), which maps the file
//! let keys = gguf.metadata().scoped(gguf.metadata().architecture()?);
//! assert_eq!(keys.u32("block_count")?, 2);
//! assert_eq!(keys.per_layer_u32("attention.head_count_kv", 2)?, [4, 8]);
//! let error = keys.u32("context_length").unwrap_err();
//! assert_eq!(error.to_string(), r#"missing metadata key "tiny.context_length""#);
//!
//! let output = gguf.require("output.weight")?;
//! assert_eq!((output.dims.as_slice(), output.format), ([3, 2].as_slice(), Format::F32));
//! assert_eq!(gguf.data(output), weights);
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

pub mod blocks;
mod cursor;
mod dequantize;
mod disk;
mod error;
mod file;
mod format;
mod getters;
mod metadata;
mod parse;
pub mod quantize;
mod split;
mod tensor;
mod value;
mod writer;

pub use dequantize::{DequantizeError, dequantize};
pub use error::{FoundType, GgufError};
pub use file::Gguf;
pub use format::Format;
pub use metadata::{Metadata, Scoped};
pub use quantize::QuantizeError;
pub use tensor::Tensor;
pub use value::{Array, Value, ValueType};
pub use writer::Writer;

/// The README, so that its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
