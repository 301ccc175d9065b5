//! Recurrent states, on a backend that refuses every step that does not fit them.

mod hybrid;
mod jobs;
mod property;
mod reuse;
