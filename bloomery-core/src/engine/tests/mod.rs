//! Recurrent states, on a backend that refuses every step that does not fit them.

mod block;
mod hybrid;
mod jobs;
mod property;
mod reuse;
mod shallow;
