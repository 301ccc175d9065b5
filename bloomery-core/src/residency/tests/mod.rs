//! Residency on made up choices and on recorded ones.

mod admission;
mod cost;
mod heat;
mod invariants;
mod rivals;
mod simulate;
mod trace;
mod twin;
