//! F: tools.
