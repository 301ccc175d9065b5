//! Responses.

mod items;
mod request;
