//! The inference engine: text in and out of tokens, chat templates, sampling.
#![forbid(unsafe_code)]

pub mod chat;
pub mod sampling;
pub mod tokenizer;
