//! E: chat.
