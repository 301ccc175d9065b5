//! The chat routes without sockets: forms of requests, templates that think and call tools, agents' conversations.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod agents;
mod requests;
mod support;
mod thinking;
