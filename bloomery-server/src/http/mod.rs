//! HTTP: what comes in, what goes out, and the connections between.

mod auth;
mod body;
mod connection;
mod cors;
mod events;
mod flight;
mod listen;
mod outgoing;
mod phase;
mod reply;
mod request;
mod server;
mod service;
mod socket;
#[cfg(test)]
mod tests;
mod tls;

pub use events::{ClientGone, Events, EventsSender, framed};
pub use listen::{BindError, Listeners, bind};
pub use reply::{Reply, ReplyBody};
pub use request::{Query, Request};
pub use server::{Ready, serve};
pub use service::Answer;
pub use tls::TlsError;
