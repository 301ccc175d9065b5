//! What host and kernels agree on: arguments, tables in memory, and how rows of weights are cut into pieces.
//!
//! This folder is compiled twice: here for the host and, by path, into the kernels. Addresses are those of the card.
//! Only `core` is used, and every structure has its size checked on both sides.

pub mod activation;
pub mod attention;
pub mod candidates;
pub mod delta;
pub mod draft;
pub mod embed;
pub mod experts;
pub mod few;
pub mod formats;
pub mod heads;
pub mod index;
pub mod many;
pub mod many_float;
pub mod ngrams;
pub mod norm;
pub mod project;
pub mod project_both;
pub mod rope;
pub mod rounded;
pub mod route;
pub mod routes;
pub mod seats;
pub mod shape;
pub mod streams;
pub mod summaries;
pub mod take;
pub mod tiles;
