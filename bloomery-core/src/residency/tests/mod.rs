//! Residency on made up choices and on recorded ones.

mod cost;
mod rivals;
mod simulate;
mod trace;
