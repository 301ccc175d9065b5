//! The HTTP server on bloomery-core.
#![forbid(unsafe_code)]

pub mod chat;
