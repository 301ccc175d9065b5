//! The unit tests of `bench`.
#![forbid(unsafe_code)]

mod args;
mod test;
mod theirs;
