//! HTTP: what comes in, what goes out, and the connections between.

mod events;
mod reply;
mod request;

pub use events::{ClientGone, Events, EventsSender};
pub use reply::{Reply, ReplyBody};
pub use request::{Query, Request};
