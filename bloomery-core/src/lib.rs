//! The inference engine: `Engine`, `Session`, `Placement`.
#![forbid(unsafe_code)]
