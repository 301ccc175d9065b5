//! Constraints on the demo model's vocabulary: what they let through, and what they cost.

mod differential;
mod gbnf;
mod hostile;
mod lazy;
mod samples;
mod schema;
mod support;
mod thinking;
mod timings;
mod tokens;
