//! The conformance cases of the llama-server API, against the real binary on the demo model.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod anthropic;
mod chat;
mod introspection;
mod native;
mod recorded;
mod recurrent;
mod responses;
mod rest;
mod support;
mod tools;
mod transport;
