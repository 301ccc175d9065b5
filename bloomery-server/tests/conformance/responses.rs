//! H: responses.
