//! Ids against llama.cpp's, special tokens, round trips, streaming, bounded time.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod ids;
mod specials;
mod spm;
mod tables;
mod text;
