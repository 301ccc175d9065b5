//! Rows that stop at the cut, on a backend whose layers behind it show every key that is missing.

mod layered;
mod property;
mod rows;
