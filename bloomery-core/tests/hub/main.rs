//! Downloads from a hub that is well, and from one that is not. No test leaves this machine.
#![cfg(feature = "hub")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

mod broken;
mod cache;
mod disk;
mod processes;
mod refused;
mod server;
mod support;
mod well;
