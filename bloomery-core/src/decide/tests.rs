//! A tiny model of this kind, and what its release's own program computes of it.

mod fixture;
mod head;
mod prompt;
mod shapes;
