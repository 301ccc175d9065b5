//! The server under test, and a client that sees every byte.
