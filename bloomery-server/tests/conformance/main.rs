//! The conformance cases of the llama-server API, against the real binary on the demo model.

mod anthropic;
mod chat;
mod introspection;
mod native;
mod recorded;
mod responses;
mod rest;
mod support;
mod tools;
mod transport;
