//! The layer over real sockets, with handlers made for the purpose.

mod connections;
mod disconnects;
mod fake;
mod listening;
mod requests;
mod stopping;
