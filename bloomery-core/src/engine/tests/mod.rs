//! Recurrent states, on a backend that refuses every step that does not fit them.

mod hybrid;
mod property;
mod reuse;
