//! Many clients at once against the real binary, and what the server costs on top of the engine.
//!
//! `cargo test --release -p bloomery-server --test load -- --include-ignored --nocapture --test-threads 1` prints the figures.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests that print what they measure")]

mod client;
mod crowd;
mod figures;
mod latency;
mod overhead;
mod process;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tests that measure take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
