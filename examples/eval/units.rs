//! The unit tests of `eval`.
#![forbid(unsafe_code)]
#![expect(dead_code, reason = "what only the program uses")]

mod base;
mod divergence;
mod text;
