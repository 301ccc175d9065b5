//! A and B: start, health, transport, keys, cross-origin.
