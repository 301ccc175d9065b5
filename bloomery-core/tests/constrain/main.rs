//! Constraints on the demo model's vocabulary: what they let through, and what they cost.

mod differential;
mod gbnf;
mod support;
