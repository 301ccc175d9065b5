//! Anthropic's API.

mod billing;
mod blocks;
mod request;
