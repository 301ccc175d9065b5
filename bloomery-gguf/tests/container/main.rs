//! The container: reading, refusing, writing, splitting.

mod disk;
mod getters;
mod mutation;
mod oracle;
mod raw;
mod refusals;
mod split;
mod writer;
