//! G: Anthropic messages.
