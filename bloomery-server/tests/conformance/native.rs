//! D: native completion.
