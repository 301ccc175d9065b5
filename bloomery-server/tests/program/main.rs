//! The real program: what it prints, how it ends, and where it gets its model.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod decide;
mod download;
#[path = "../../../bloomery-core/tests/hub/server.rs"]
mod hub;
mod seats;
mod serving;
mod start;
