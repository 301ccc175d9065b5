//! Routes without sockets.
