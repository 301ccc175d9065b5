//! The chat routes without sockets: forms of requests, templates that think and call tools, agents' conversations.

mod agents;
mod requests;
mod support;
mod thinking;
