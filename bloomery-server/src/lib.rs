//! A drop-in llama-server on `bloomery-core`. The binary is `bloomery-serve`.
//!
//! The way of a request: [`http`] reads it, [`api`] finds its route and turns the wire format into a
//! [`Job`](bloomery_core::scheduler::Job) of the scheduler, [`stream`] carries the job's events back, and the route turns
//! them into JSON or server-sent events.
#![forbid(unsafe_code)]

pub mod api;
pub mod app;
pub mod args;
pub mod chat;
mod download;
pub mod error;
pub mod exit;
pub mod http;
pub mod logs;
pub mod options;
pub mod serve;
mod signals;
pub mod stream;
